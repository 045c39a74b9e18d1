// Measures how large the product is; see main.go.
module github.com/realmkeeper/realmkeeper/hack/size

go 1.26.0

require golang.org/x/tools v0.40.0

require (
	golang.org/x/mod v0.31.0 // indirect
	golang.org/x/sync v0.19.0 // indirect
)
