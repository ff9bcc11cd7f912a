# shellcheck shell=bash disable=SC2034,SC2154
# From nothing to a cluster and back. Sourced by ../testbed.

KERNEL_SETTINGS=(vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops
  kernel.keys.root_maxkeys kernel.keys.root_maxbytes)

up() {
  NODES=1
  local family=ipv4 n name loading
  while (($#)); do
    case $1 in
      --nodes) NODES=$2 && shift 2 ;;
      --ip-family) family=$2 && shift 2 ;;
      *) die "unknown option $1" ;;
    esac
  done
  ((NODES >= 1 && NODES <= 9)) || die "1 to 9 nodes"
  if [[ -e $RUN/env && -n $(group_pids control) ]]; then
    [[ $(cat "$RUN/env") == "$(printf 'NODES=%q\nFAMILY=%q' "$NODES" "$family")" ]] || die 'another cluster is up; see testbed status'
    echo "$RUN/kubeconfig"
    return
  fi
  [[ -z $(group_pids '') ]] || die 'a cluster with another TESTBED_DIR is up'
  down # what is left of a cluster that went with the machine
  requirements
  [[ -x $KUBE && -s $IMAGES/pause.tar ]] || build
  addresses "$family" # settles FAMILY

  mkdir -p "$RUN"/{log,pid,volumes}
  printf 'NODES=%q\nFAMILY=%q\n' "$NODES" "$family" >"$RUN/env"
  sysctl "${KERNEL_SETTINGS[@]}" >"$RUN/sysctl.saved" # the kubelet changes them; down puts them back
  : >"$RUN/resolv.conf"                               # pods know the cluster's names only
  make_certificates
  write_manifests

  ip link add "$BRIDGE" type bridge
  ip address add "$GATEWAY/$MASK" dev "$BRIDGE" "${NODAD[@]}"
  ip link set "$BRIDGE" up

  component etcd
  component kube-apiserver
  for ((n = 1; n <= NODES; n++)); do
    write_node_config "$n"
    start_node "$n"
  done
  load "$IMAGES"/*.tar &
  loading=$!
  until_true 60 "the API server" kubectl get --raw /readyz
  for name in kube-controller-manager kube-scheduler cloud dns; do component "$name"; done
  for ((n = 1; n <= NODES; n++)); do start_kubelet "$n"; done
  kubectl apply -f "$RUN/manifests.yaml" >/dev/null
  wait "$loading"
  route_services
  until_true 60 "all nodes to register" nodes_registered
  kubectl wait --for=condition=Ready node --all --timeout=90s >/dev/null
  until_true 30 "the default service account" kubectl get serviceaccount default
  echo "$RUN/kubeconfig"
}

# cert-manager's controller, for self-signed and CA issuers: an extra, built on first use.
cert_manager() {
  [[ -z $(group_pids control/cert-manager) ]] || return 0
  local module
  provide_go
  module=$(cd "$HERE/certmanager" && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$BIN/certmanager" . &&
    go list -m -f '{{.Dir}}' github.com/cert-manager/cert-manager)
  kubectl apply --server-side -f "$module/deploy/crds" >/dev/null
  kubectl create namespace cert-manager --dry-run=client -o yaml | kubectl apply -f - >/dev/null
  kubectl wait --for=condition=Established crd --all --timeout=30s >/dev/null
  component cert-manager
}

nodes_registered() { [[ $(kubectl get nodes -o name | wc -l) -eq $NODES ]]; }

down() {
  local link
  kill_group ''
  for link in /sys/class/net/tb-node* "/sys/class/net/$BRIDGE"; do
    ip link delete "${link##*/}" 2>/dev/null || true
  done
  if [[ -s $RUN/sysctl.saved ]]; then sysctl -qp "$RUN/sysctl.saved" || true; fi
  rm -rf "$RUN"
}

attach() { # settle the settings of the cluster that is up
  [[ -e $RUN/env ]] || die "no cluster is up"
  # shellcheck source=/dev/null
  source "$RUN/env"
  addresses "$FAMILY"
}

status() {
  echo "TESTBED_DIR: $DIR"
  [[ -e $RUN/env ]] || { echo 'no cluster is up' && return; }
  attach
  echo "kubeconfig: $RUN/kubeconfig"
  local file pid
  for file in "$RUN"/pid/*; do
    pid=$(cat "$file")
    printf '%-26s %-7s %s\n' "$(basename "$file")" "$pid" "$(cut -d' ' -f3 "/proc/$pid/stat" 2>/dev/null || echo gone)"
  done
  kubectl get nodes -o wide
}

