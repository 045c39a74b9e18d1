// Package ext has the types of a module that exists only in Traefik's repository.
package ext

// Router extends the configuration of a router.
type Router struct{}

// HTTP extends the configuration of HTTP.
type HTTP struct{}
