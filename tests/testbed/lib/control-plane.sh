# shellcheck shell=bash disable=SC2034,SC2154
# The control plane, on the host. Sourced by ../testbed.

kubectl() { "$KUBE" kubectl --kubeconfig "$RUN/kubeconfig" "$@"; }

component() { # NAME: start one part of the control plane
  local name=$1 flags
  case $name in
    etcd) flags=(--data-dir "$RUN/etcd") ;;
    kube-apiserver)
      # shellcheck disable=SC2054
      flags=(
        --etcd-servers=http://127.0.0.1:23790
        --bind-address="$GATEWAY" --advertise-address="$GATEWAY" --secure-port=16443
        --tls-cert-file="$PKI/kube-apiserver.crt" --tls-private-key-file="$PKI/kube-apiserver.key"
        --client-ca-file="$PKI/ca.crt"
        --kubelet-client-certificate="$PKI/apiserver-kubelet-client.crt"
        --kubelet-client-key="$PKI/apiserver-kubelet-client.key"
        --kubelet-preferred-address-types=InternalIP
        --requestheader-client-ca-file="$PKI/ca.crt" --requestheader-allowed-names=front-proxy
        --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group
        --requestheader-extra-headers-prefix=X-Remote-Extra-
        --proxy-client-cert-file="$PKI/front-proxy.crt" --proxy-client-key-file="$PKI/front-proxy.key"
        --service-account-issuer=https://kubernetes.default.svc.cluster.local
        --service-account-key-file="$PKI/sa.pub" --service-account-signing-key-file="$PKI/sa.key"
        --service-cluster-ip-range="$SERVICE_NET"
        --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction
        --allow-privileged=true
        --audit-policy-file="$HERE/audit-policy.yaml" --audit-log-path="$RUN/audit.log"
        --audit-log-maxsize=200 --audit-log-maxbackup=3
        --default-not-ready-toleration-seconds="$EVICT_SECONDS"
        --default-unreachable-toleration-seconds="$EVICT_SECONDS"
      )
      ;;
    kube-controller-manager)
      flags=(
        --kubeconfig="$PKI/$name.kubeconfig" --authentication-kubeconfig="$PKI/$name.kubeconfig"
        --authorization-kubeconfig="$PKI/$name.kubeconfig" --bind-address=127.0.0.1
        --leader-elect=false --use-service-account-credentials=true
        --root-ca-file="$PKI/ca.crt" --service-account-private-key-file="$PKI/sa.key"
        --cluster-signing-cert-file="$PKI/ca.crt" --cluster-signing-key-file="$PKI/ca.key"
        --node-monitor-period=2s --node-monitor-grace-period=12s
      )
      ;;
    kube-scheduler)
      flags=(
        --kubeconfig="$PKI/$name.kubeconfig" --authentication-kubeconfig="$PKI/$name.kubeconfig"
        --authorization-kubeconfig="$PKI/$name.kubeconfig" --bind-address=127.0.0.1 --leader-elect=false
      )
      ;;
    cloud) flags=(--kubeconfig "$RUN/kubeconfig" --volumes "$RUN/volumes" --lb-pool "$LB_NET") ;;
    dns) spawn control/dns dns "$BIN/dns" -conf "$RUN/Corefile" && return ;;
    cert-manager) spawn control/cert-manager cert-manager "$BIN/certmanager" -kubeconfig "$RUN/kubeconfig" && return ;;
  esac
  spawn "control/$name" "$name" "$KUBE" "$name" "${flags[@]}"
}

write_manifests() {
  cat >"$RUN/Corefile" <<COREFILE
.:53 {
  bind $GATEWAY
  errors
  health 127.0.0.1:18080
  cache 2
  kubernetes cluster.local in-addr.arpa ip6.arpa {
    kubeconfig $RUN/kubeconfig testbed
    pods insecure
    ttl 2
  }
}
COREFILE
  local address_type=IPv4
  [[ $FAMILY == ipv6 ]] && address_type=IPv6
  cat >"$RUN/manifests.yaml" <<MANIFESTS
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: standard
  annotations: {storageclass.kubernetes.io/is-default-class: "true"}
provisioner: testbed.local/dir
reclaimPolicy: Delete
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
---
# Cluster DNS runs on the host: a Service without a selector leads to it.
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  clusterIP: "$SERVICE_DNS"
  ports:
  - {name: dns, port: 53, protocol: UDP}
  - {name: dns-tcp, port: 53, protocol: TCP}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns-host, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: $address_type
endpoints: [{addresses: ["$GATEWAY"]}]
ports:
- {name: dns, port: 53, protocol: UDP}
- {name: dns-tcp, port: 53, protocol: TCP}
MANIFESTS
}

