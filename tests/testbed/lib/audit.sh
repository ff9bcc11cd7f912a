# shellcheck shell=bash disable=SC2034,SC2154
# The API server's audit log, summed up. Sourced by ../testbed.

# audit [--mark] [--since TIME] [--user TEXT] [--json]: requests by user, verb, resource and answer.
# A request has one ID and up to two records (started, complete); it counts once, in the time at which it arrived, with the
# newest answer. A watch that runs was counted when it began: quiet minutes show no watch. `denied` (--json) says that a right was
# missing: a 403 is also what a namespace says that is on its way out.
audit() {
  local since='' text='' json=false
  since=$(cat "$RUN/audit.mark" 2>/dev/null || true)
  while (($#)); do
    case $1 in
      --mark) date -u +%FT%T.%6NZ | tee "$RUN/audit.mark" && return ;;
      --since) need 2 'audit --since TIME' "$@" && since=$(date -u -d "$2" +%FT%T.%6NZ) && shift 2 ;;
      --user) need 2 'audit --user TEXT' "$@" && text=$2 && shift 2 ;;
      --json) json=true && shift ;;
      *) die "unknown option $1" ;;
    esac
  done
  local rows
  rows=$(find "$RUN" -maxdepth 1 -name 'audit*.log' -exec cat {} + | jq -cn --arg since "${since%Z}" --arg text "$text" '
    reduce (inputs
      | select((.requestReceivedTimestamp | rtrimstr("Z")) >= $since and ((.impersonatedUser // .user).username | contains($text)))) as $r
      ({}; .[$r.auditID] = {
        user: ($r.impersonatedUser // $r.user).username, verb: $r.verb, group: ($r.objectRef.apiGroup // ""),
        resource: ($r.objectRef.resource // ($r.requestURI | split("?")[0])), subresource: ($r.objectRef.subresource // ""),
        namespace: ($r.objectRef.namespace // ""), code: ($r.responseStatus.code // 0),
        denied: ($r.annotations["authorization.k8s.io/decision"] == "forbid")})
    | [.[]] | group_by([.user, .verb, .group, .resource, .subresource, .namespace, .code, .denied])
    | .[] | .[0] + {count: length}')
  if $json; then
    echo "$rows"
  else
    jq -rsn '[inputs[]] | group_by([.user, .verb, .group, .resource, .subresource, .code]) | .[]
      | [(map(.count) | add), .[0].code, .[0].user, .[0].verb,
         ([.[0].group, .[0].resource, .[0].subresource] | map(select(. != "")) | join("/"))] | @tsv' <<<"$rows" |
      { printf 'COUNT\tANSWER\tUSER\tVERB\tRESOURCE\n' && sort -t$'\t' -k3,3 -k1,1nr; } | column -t -s $'\t'
  fi
}
