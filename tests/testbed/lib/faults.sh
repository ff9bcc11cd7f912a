# shellcheck shell=bash disable=SC2034,SC2154
# Faults. Sourced by ../testbed.

# between A B add|delete: drop all that A sends to B's addresses, and the other way round.
between() {
  local from=$1 to=$2 target
  for target in "$(node_ip "$to")/$HOSTMASK" "$(pod_net "$to")"; do
    in_node "$from" "${IP[@]}" rule "$3" to "$target" priority 100 blackhole
  done
}

partition() { # NODE [NODE]
  local a b
  a=$(node_number "$1")
  if (($# == 1)); then
    ip link set "tb-node$a" down
    route_services
  else
    b=$(node_number "$2")
    between "$a" "$b" add
    between "$b" "$a" add
  fi
}

heal() { # NODE [NODE]
  local a b
  a=$(node_number "$1")
  if (($# == 1)); then
    ip link set "tb-node$a" up
    until_true 5 "the link of node$a" grep -q up "/sys/class/net/tb-node$a/operstate"
    route_services
  else
    b=$(node_number "$2")
    between "$a" "$b" delete
    between "$b" "$a" delete
  fi
}

# drop add|delete NODE POD_IP PORT: lose, without an answer, what this pod sends to a TCP port, wherever it goes: for "cut
# off from the servers, not from the API". Frames are caught where they enter the pod's bridge, so the way they take after
# that (same node, another one, a Service) makes no difference. What is established is lost as well.
drop() {
  local verb=$1 n=$2 pod=$3 port=$4 set=cut4
  n=$(node_number "$n")
  [[ $port =~ ^[0-9]+$ ]] || die "not a port: $port"
  [[ $pod == *:* ]] && set=cut6
  in_node "$n" nft -f - <<NFT
table bridge testbed {
  set cut4 { type ipv4_addr . inet_service; }
  set cut6 { type ipv6_addr . inet_service; }
  chain cut { type filter hook prerouting priority -300; }
}
flush chain bridge testbed cut
add rule bridge testbed cut ether type ip ip saddr . tcp dport @cut4 drop
add rule bridge testbed cut ether type ip6 ip6 saddr . tcp dport @cut6 drop
add element bridge testbed $set { $pod . $port }
$([[ $verb == add ]] || echo "delete element bridge testbed $set { $pod . $port }")
NFT
}

kill_node() { # NODE
  local n
  n=$(node_number "$1")
  kill_group "node$n"
  ip link delete "tb-node$n" 2>/dev/null || true
  rm -f "$RUN/pid/node$n-"*
  route_services
}

power_on() { # NODE
  local n
  n=$(node_number "$1")
  node_alive "$n" && die "$1 is up"
  start_node "$n"
  start_kubelet "$n"
  route_services
}

group_of() { # NODE|COMPONENT
  if [[ -d $RUN/$1 && $1 == node* ]]; then echo "$1"; else echo "control/$1"; fi
  [[ -d $(cgroup_dir "$1") || -d $(cgroup_dir "control/$1") ]] || die "no node or component $1"
}

