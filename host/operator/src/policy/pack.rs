//! `policy pack`: the ConfigMap of a component.

use std::fs;

use anyhow::Context;
use vko_engine::{Engine, pack};

use crate::args::PackOptions;

/// Prints the ConfigMap.
pub(super) fn pack(options: &PackOptions) -> anyhow::Result<()> {
    let file = options.component.display();
    let component = fs::read(&options.component).with_context(|| format!("{file} can't be read"))?;
    let engine = Engine::new()?;
    let expected = engine.describe(&component).with_context(|| format!("{file} is no policy"))?;
    let name = options.config_map.clone().unwrap_or_else(|| expected.name.clone());
    let config_map = pack::pack(&name, &expected, &component).with_context(|| format!("{file} can't be packed"))?;
    println!("{}", serde_json::to_string_pretty(&config_map)?);
    Ok(())
}
