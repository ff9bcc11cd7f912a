# shellcheck shell=bash disable=SC2034,SC2154
# The plan of all addresses. Sourced by ../testbed.

# addresses FAMILY: the plan of all addresses. Node N has the host part 10+N and its own pod network.
addresses() {
  FAMILY=$1
  case $FAMILY in
    ipv4)
      NODES_PREFIX=10.213.0. POD_FORMAT=10.213.%d.0/24 MASK=24 HOSTMASK=32
      SERVICE_NET=10.214.0.0/16 SERVICE_API=10.214.0.1 SERVICE_DNS=10.214.0.10 LB_NET=10.215.0.0/24
      IP=(ip -4) NODAD=() DEFAULT_ROUTE=0.0.0.0/0
      ;;
    ipv6)
      NODES_PREFIX=fd00:213:: POD_FORMAT=fd00:213:0:%d::/64 MASK=64 HOSTMASK=128
      SERVICE_NET=fd00:214::/112 SERVICE_API=fd00:214::1 SERVICE_DNS=fd00:214::a LB_NET=fd00:215::/120
      IP=(ip -6) NODAD=(nodad) DEFAULT_ROUTE=::/0
      ;;
    *) die "ip family is ipv4 or ipv6" ;;
  esac
  GATEWAY=${NODES_PREFIX}1
  API=https://$(in_url "$GATEWAY"):16443
}

in_url() { [[ $1 == *:* ]] && echo "[$1]" || echo "$1"; }
node_ip() { echo "$NODES_PREFIX$((10 + $1))"; }
# shellcheck disable=SC2059
pod_net() { printf "$POD_FORMAT" "$((10 + $1))"; }

