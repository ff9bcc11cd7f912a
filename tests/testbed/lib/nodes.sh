# shellcheck shell=bash disable=SC2034,SC2154
# Nodes. Sourced by ../testbed.

ZONES=(a b c) # node1 is in a, node2 in b, node3 in c, node4 in a ...

# A node is a set of namespaces (network, mounts, host name) with its own /run, /var/lib
# and /var/log, held by one idle process. When its processes are gone, so is all the rest.
in_node() { # N COMMAND...
  local pid
  pid=$(cat "$RUN/pid/node$1-machine")
  shift
  nsenter --target "$pid" --net --mount --uts -- "$@"
}

spawn_in_node() { # N NAME COMMAND...
  local n=$1 name=$2
  shift 2
  spawn "node$n/system" "node$n-$name" \
    nsenter --target "$(cat "$RUN/pid/node$n-machine")" --net --mount --uts -- "$@"
}

node_number() { # NODE: its number, if there is such a node
  local n=${1#node}
  [[ $1 == node* && -d $RUN/node$n ]] || die "no node $1"
  echo "$n"
}

node_alive() { [[ -n $(group_pids "node$1/system") ]]; }

write_node_config() { # N
  local n=$1 dir=$RUN/node$1
  mkdir -p "$dir"/{var-lib,var-log,cni}
  echo 'nameserver 127.0.0.1' >"$dir/resolv.conf"
  cat >"$dir/containerd.toml" <<CONTAINERD
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/pause:testbed"
  # Needed where CAP_SYS_RESOURCE is missing: runc cannot lower a score then.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$dir/cni"
CONTAINERD
  cat >"$dir/cni/10-testbed.conflist" <<CNI
{
  "cniVersion": "1.0.0",
  "name": "testbed",
  "plugins": [
    {
      "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
      "ipam": {
        "type": "host-local", "dataDir": "/run/cni-ipam",
        "ranges": [[{"subnet": "$(pod_net "$n")"}]], "routes": [{"dst": "$DEFAULT_ROUTE"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
CNI
  cat >"$dir/kubelet.yaml" <<KUBELET
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: "$PKI/ca.crt"}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /$CGROUP/node$n
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
oomScoreAdj: 0
clusterDomain: cluster.local
clusterDNS: ["$SERVICE_DNS"]
resolvConf: $RUN/resolv.conf
evictionHard: {memory.available: 50Mi, nodefs.available: 1%, nodefs.inodesFree: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
nodeStatusUpdateFrequency: 2s
nodeLeaseDurationSeconds: 8
KUBELET
  cat >"$dir/kube-proxy.yaml" <<PROXY
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: "$PKI/kube-proxy.kubeconfig"}
hostnameOverride: node$n
detectLocalMode: BridgeInterface
detectLocal: {bridgeInterface: cni0}
# These limits belong to the host's kernel, not to a network namespace.
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
PROXY
}

# By default all pods of all nodes together get as much of the processors as one process beside them: a compiler, or kubectl a few
# times a second, and all servers stand still at once (Sentinels fall into TILT). They weigh as much as twenty.
weigh_pods() {
  local v1=/sys/fs/cgroup/cpu/$CGROUP/cpu.shares v2=/sys/fs/cgroup/$CGROUP/cpu.weight
  if [[ -e $v1 ]]; then echo 20480 >"$v1"; fi
  if [[ -e $v2 ]]; then echo 2000 >"$v2"; fi
}

start_node() { # N
  local n=$1 dir=$RUN/node$1 hierarchy pid other address
  for hierarchy in /sys/fs/cgroup/*/; do # the kubelet wants its root group to exist
    [[ -e $hierarchy/cgroup.procs ]] && mkdir -p "$hierarchy/$CGROUP/node$n"
  done
  [[ -e /sys/fs/cgroup/cgroup.procs ]] && mkdir -p "/sys/fs/cgroup/$CGROUP/node$n"
  weigh_pods

  spawn "node$n/system" "node$n-machine" unshare --net --mount --uts --propagation private sleep infinity
  pid=$(cat "$RUN/pid/node$n-machine")
  # shellcheck disable=SC2016
  until_true 5 "node$n" sh -c '[ "$(readlink /proc/$0/ns/uts)" != "$(readlink /proc/$$/ns/uts)" ] &&
    [ "$(cat /proc/$0/comm)" = sleep ]' "$pid"

  # shellcheck disable=SC2016
  in_node "$n" sh -euc '
    hostname "$1"
    mount --make-rshared /
    mount -t tmpfs -o mode=755 tmpfs /run
    mkdir -p /run/lock
    mount --bind "$0/var-lib" /var/lib
    mount --bind "$0/var-log" /var/log
    # No name outside the cluster can be found: a pull of an image fails at once.
    if [ -f /etc/resolv.conf ]; then mount --bind "$0/resolv.conf" /etc/resolv.conf; fi
  ' "$dir" "node$n"

  address=$(node_ip "$n")
  ip link add "tb-node$n" type veth peer name eth0 netns "$pid"
  ip link set "tb-node$n" master "$BRIDGE" up
  in_node "$n" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=0 \
    net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1
  in_node "$n" ip link set lo up
  in_node "$n" ip address add "$address/$MASK" dev eth0 "${NODAD[@]}"
  in_node "$n" ip link set eth0 up
  in_node "$n" "${IP[@]}" route add default via "$GATEWAY"
  for ((other = 1; other <= NODES; other++)); do
    ((other == n)) || in_node "$n" "${IP[@]}" route add "$(pod_net "$other")" via "$(node_ip "$other")"
  done
  "${IP[@]}" route replace "$(pod_net "$n")" via "$address" dev "$BRIDGE"

  spawn_in_node "$n" containerd containerd --config "$dir/containerd.toml"
}

start_kubelet() { # N
  local n=$1 dir=$RUN/node$1
  until_true 60 "the pause image on node$n" has_image "$n" docker.io/library/pause:testbed
  spawn_in_node "$n" kubelet "$KUBE" kubelet --config="$dir/kubelet.yaml" --kubeconfig="$PKI/node$n.kubeconfig" \
    --hostname-override="node$n" --node-ip="$(node_ip "$n")" \
    --node-labels="topology.kubernetes.io/zone=${ZONES[(n - 1) % ${#ZONES[@]}]},topology.kubernetes.io/region=testbed"
  spawn_in_node "$n" kube-proxy "$KUBE" kube-proxy --config="$dir/kube-proxy.yaml"
}

has_image() { in_node "$1" ctr --namespace k8s.io images list -q "name==$2" | grep -q .; } # N REF

load_into() { # N FILE...
  local n=$1 file
  shift
  until_true 20 "containerd of node$n" in_node "$n" ctr version
  for file in "$@"; do in_node "$n" ctr --namespace k8s.io images import "$file" >/dev/null; done
}

load() { # FILE...
  local n loading=()
  for ((n = 1; n <= NODES; n++)); do
    node_alive "$n" || continue
    load_into "$n" "$@" &
    loading+=($!)
  done
  wait "${loading[@]}"
}

# The host reaches Services through the first node that is up and not cut off.
route_services() {
  local n
  for ((n = 1; n <= NODES; n++)); do
    if node_alive "$n" && [[ $(cat "/sys/class/net/tb-node$n/operstate" 2>/dev/null) == up ]]; then
      "${IP[@]}" route replace "$SERVICE_NET" via "$(node_ip "$n")" dev "$BRIDGE"
      "${IP[@]}" route replace "$LB_NET" via "$(node_ip "$n")" dev "$BRIDGE"
      return
    fi
  done
}

