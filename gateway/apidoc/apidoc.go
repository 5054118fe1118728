package apidoc

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"regexp"

	"parley/gateway/exchange"
)

//go:embed openapi.json
var document []byte

//go:embed docs.html
var page []byte

// ShowDocument answers GET /openapi.json.
func ShowDocument(x *exchange.Exchange) error {
	x.Header().Set("Content-Type", "application/json")
	x.Header().Set("Cache-Control", "no-cache")
	return x.Send(http.StatusOK, document)
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
