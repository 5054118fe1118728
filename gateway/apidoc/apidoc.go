package apidoc

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"io"
	"net/http"
	"regexp"
	"sync"

	"parley/gateway/exchange"
)

// packedDocument is openapi.json, which the tests of package gateway write, compressed by gzip:
// as text it would take fifteen times the space.
//
//go:embed openapi.json.gz
var packedDocument []byte

// document unpacks packedDocument. A test compares it with openapi.json.
var document = sync.OnceValues(func() ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packedDocument))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
})

//go:embed docs.html
var page []byte

// ShowDocument answers GET /openapi.json.
func ShowDocument(x *exchange.Exchange) error {
	text, err := document()
	if err != nil {
		return err
	}
	x.Header().Set("Content-Type", "application/json")
	x.Header().Set("Cache-Control", "no-cache")
	return x.Send(http.StatusOK, text)
}

// ShowPage answers GET /docs. The page may run what stands in it and ask this server, and
// nothing else.
func ShowPage(x *exchange.Exchange) error {
	h := x.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Content-Security-Policy", policy)
	return x.Send(http.StatusOK, page)
}

// policy names the script and the style of the page by their hashes.
var policy = "default-src 'none'; script-src " + hashOf("script") + "; style-src " + hashOf("style") +
	"; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func hashOf(element string) string {
	found := regexp.MustCompile(`(?s)<` + element + `>(.*?)</` + element + `>`).FindSubmatch(page)
	if len(found) < 2 || bytes.Count(page, []byte("<"+element)) != 1 {
		panic("apidoc: the page must have one " + element)
	}
	sum := sha256.Sum256(found[1])
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
