# shellcheck shell=bash disable=SC2034,SC2154
# Certificates and kubeconfigs. Sourced by ../testbed.

# certificate NAME SUBJECT [SAN]: a key and a certificate by our authority.
certificate() {
  local name=$1 subject=$2 san=${3:-}
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "$subject" \
    -keyout "$PKI/$name.key" -out "$PKI/$name.csr" 2>/dev/null
  openssl x509 -req -in "$PKI/$name.csr" -CA "$PKI/ca.crt" -CAkey "$PKI/ca.key" -days 365 -out "$PKI/$name.crt" \
    -extfile <(echo 'extendedKeyUsage=clientAuth,serverAuth' && echo "${san:+subjectAltName=$san}") 2>/dev/null
}

# user NAME SUBJECT: a certificate, and a kubeconfig that can be copied anywhere.
user() {
  certificate "$1" "$2"
  cat >"$PKI/$1.kubeconfig" <<KUBECONFIG
apiVersion: v1
kind: Config
current-context: testbed
clusters:
- name: testbed
  cluster: {server: "$API", certificate-authority-data: $(base64 -w0 "$PKI/ca.crt")}
users:
- name: $1
  user: {client-certificate-data: $(base64 -w0 "$PKI/$1.crt"), client-key-data: $(base64 -w0 "$PKI/$1.key")}
contexts:
- name: testbed
  context: {cluster: testbed, user: $1}
KUBECONFIG
}

make_certificates() {
  mkdir -p "$PKI"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 -subj /CN=testbed \
    -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature -keyout "$PKI/ca.key" -out "$PKI/ca.crt" 2>/dev/null
  openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$PKI/sa.key" 2>/dev/null
  openssl pkey -in "$PKI/sa.key" -pubout -out "$PKI/sa.pub"
  local service=kubernetes.default.svc
  certificate kube-apiserver /CN=kube-apiserver \
    "DNS:kubernetes,DNS:kubernetes.default,DNS:$service,DNS:$service.cluster.local,IP:$SERVICE_API,IP:$GATEWAY,IP:127.0.0.1"
  certificate apiserver-kubelet-client /O=system:masters/CN=apiserver-kubelet-client
  certificate front-proxy /CN=front-proxy
  user admin /O=system:masters/CN=admin
  user kube-controller-manager /CN=system:kube-controller-manager
  user kube-scheduler /CN=system:kube-scheduler
  user kube-proxy /CN=system:kube-proxy
  local n
  for ((n = 1; n <= NODES; n++)); do user "node$n" "/O=system:nodes/CN=system:node:node$n"; done
  cp "$PKI/admin.kubeconfig" "$RUN/kubeconfig"
}

