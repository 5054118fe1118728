// Package apidoc shows the API: its description in OpenAPI, and a page on which people read
// it. The description is generated from the route table, the parsers and the types of
// answers, by a test of package gateway that fails when it is stale:
//
//	go test ./gateway -run TestOpenAPI -rewrite
package apidoc
