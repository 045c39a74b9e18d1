// The verifier that APIs import. It is a module of its own, tagged api/verify/vX.Y.Z, so that it
// brings none of the product's dependencies.
module github.com/realmkeeper/realmkeeper/api/verify

go 1.25.0

require github.com/go-jose/go-jose/v4 v4.1.8
