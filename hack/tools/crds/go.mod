// The CRDs of others, for tests of manifests against a real API server. Nothing is built from
// these modules, so `go mod tidy` would empty this file. Get one with:
// go -C hack/tools/crds mod download -json MODULE
module github.com/realmkeeper/realmkeeper/hack/tools/crds

go 1.26.0

require (
	github.com/argoproj/argo-cd/v3 v3.5.7
	github.com/cert-manager/cert-manager v1.21.2
	github.com/envoyproxy/gateway v1.9.1
	github.com/external-secrets/external-secrets v1.3.2
	github.com/kong/kubernetes-ingress-controller/v2 v2.12.3
	github.com/kyverno/kyverno v1.19.1
	github.com/openshift/api v0.0.0-20240524162738-d899f8877d22
	github.com/prometheus-operator/prometheus-operator v0.85.0
	github.com/traefik/traefik/v3 v3.7.13
	istio.io/api v1.31.1
	sigs.k8s.io/gateway-api v1.6.3
)
