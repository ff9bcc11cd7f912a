//! Sentinels that stand alone: the object is the person's and the topology object in one.
//!
//! # Guarantees
//! 1. What people left out is resolved at each look and stored nowhere: the object stays as they wrote it, but for the finalizer
//!    and the image that was authorised with its version.
//! 2. A spec that is refused is told in the status, and the Sentinels that run are left alone.

use serde_json::{Value, json};
use vko_api::{names, translate};

use super::look::{LookError, Refused};
use super::topology::Named;
use super::translation::{image_annotation, keep_image};
use super::{Instance, LOOK_ANYWAY, Next};
use crate::object::Object;
use crate::report::refused_status;
use crate::world::{ApiError, World};

impl<W: World> Instance<W> {
    pub(super) async fn look_at_sentinels(&mut self, valkey: Option<&Object>, sentinel: &Named) -> Result<Next, LookError> {
        if let Some(valkey) = valkey.filter(|valkey| !valkey.deleting()) {
            let message =
                format!("the Sentinel {} stands alone and has this name; choose another one, or delete it", self.key.name);
            self.report_valkey(valkey, None, Some(&Refused { reason: "TopologyForeign".into(), message })).await?;
        }
        if sentinel.object.deleting() {
            return Ok(self.end(None, sentinel).await?);
        }
        let spec = match self.resolved(&sentinel.object) {
            Ok(spec) => spec,
            Err(Refused { reason, message }) => {
                let status = refused_status(&sentinel.object, &reason, &message, self.shared.world.unix_ms());
                self.write_status(&sentinel.object, &status).await?;
                return Ok(Next::After(LOOK_ANYWAY));
            }
        };
        self.hold(sentinel, &spec).await?;
        let mut object = (*sentinel.object.0).clone();
        object["spec"] = spec;
        let resolved = Named { id: sentinel.id.clone(), object: Object::new(object) };
        self.look_at(&sentinel.object, &resolved).await
    }

    fn resolved(&self, sentinel: &Object) -> Result<Value, Refused> {
        let refuse = |reason: &str, message: String| Refused { reason: reason.into(), message };
        let typed = translate::read_sentinel(&sentinel.0)
            .and_then(|typed| translate::resolve_sentinel(&typed, &self.shared.images))
            .map_err(|error| refuse(error.reason(), error.to_string()))?;
        let mut spec = serde_json::to_value(typed).map_err(|error| refuse("SpecUnreadable", error.to_string()))?;
        keep_image(&mut spec, Some(sentinel));
        Ok(spec)
    }

    /// Nothing of it ends before we let it go, and its image stays as it was when its version was authorised.
    async fn hold(&self, sentinel: &Named, spec: &Value) -> Result<(), ApiError> {
        let object = &sentinel.object;
        let (image, held) = (image_annotation(spec), object.finalizers().any(|own| own == names::FINALIZER));
        if held && object.annotation(names::IMAGE) == image {
            return Ok(());
        }
        let finalizers: Vec<&str> =
            object.finalizers().filter(|own| *own != names::FINALIZER).chain([names::FINALIZER]).collect();
        let patch = json!({"metadata": {
            "uid": object.uid(),
            "resourceVersion": object.resource_version(),
            "finalizers": finalizers,
            "annotations": { names::IMAGE: image },
        }});
        self.shared.world.merge(&sentinel.id, &patch).await.map(drop)
    }
}
