// The examples. They are a module of their own, because the product's module can't replace the
// verifier by its directory: go install rejects that.
module github.com/realmkeeper/realmkeeper/docs/examples

go 1.26.0

require (
	github.com/realmkeeper/realmkeeper/api/verify v0.0.0
	golang.org/x/oauth2 v0.37.0
)

require github.com/go-jose/go-jose/v4 v4.1.8 // indirect

replace github.com/realmkeeper/realmkeeper/api/verify => ../../api/verify
