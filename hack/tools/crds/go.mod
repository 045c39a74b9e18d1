// The CRDs of others whose objects the chart can make, for its test against a real API
// server. Nothing is built from these modules, so `go mod tidy` would empty this file. Get one with:
// go -C hack/tools/crds mod download -json MODULE
module github.com/realmkeeper/realmkeeper/hack/tools/crds

go 1.26.0

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/prometheus-operator/prometheus-operator v0.85.0
	sigs.k8s.io/gateway-api v1.6.3
)
