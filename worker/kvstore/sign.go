package kvstore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// A signer signs requests as S3 wants them: AWS Signature Version 4. These lines replace the
// AWS SDK, which brings a hundred packages for what four verbs on one bucket need.
type signer struct {
	id, secret, session, region string
}

// sign adds the headers that show who asks; body is the SHA-256 sum of what is sent. The request
// has no query.
func (s *signer) sign(r *http.Request, body [sha256.Size]byte, now time.Time) {
	stamp := now.UTC().Format("20060102T150405Z")
	day := stamp[:8]
	sum := hex.EncodeToString(body[:])
	headers := [][2]string{{"host", r.URL.Host}, {"x-amz-content-sha256", sum}, {"x-amz-date", stamp}}
	if s.session != "" {
		headers = append(headers, [2]string{"x-amz-security-token", s.session})
	}
	var names []string
	var canonical strings.Builder
	canonical.WriteString(r.Method + "\n" + r.URL.EscapedPath() + "\n\n")
	for _, h := range headers {
		names = append(names, h[0])
		canonical.WriteString(h[0] + ":" + h[1] + "\n")
		if h[0] != "host" {
			r.Header.Set(h[0], h[1])
		}
	}
	signed := strings.Join(names, ";")
	whole := sha256.Sum256([]byte(canonical.String() + "\n" + signed + "\n" + sum))
	scope := day + "/" + s.region + "/s3/aws4_request"
	key := []byte("AWS4" + s.secret)
	for _, part := range []string{day, s.region, "s3", "aws4_request"} {
		key = mac(key, part)
	}
	signature := mac(key, "AWS4-HMAC-SHA256\n"+stamp+"\n"+scope+"\n"+hex.EncodeToString(whole[:]))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+s.id+"/"+scope+", SignedHeaders="+signed+
		", Signature="+hex.EncodeToString(signature))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// escapePath writes a path as the signature wants it: all but letters, digits, -._~ and / is
// escaped.
func escapePath(path string) string {
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(path) {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~/", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return b.String()
}
