package kube

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// A Cluster is an API server and how it is talked to.
type Cluster struct {
	API string // such as https://10.0.0.1:443
	// Namespace is where names are looked up.
	Namespace string
	// Token, or what TokenFile has, is shown as a bearer; empty shows none. The file is
	// read for each request, because it is replaced from time to time.
	Token, TokenFile string
	HTTP             *http.Client
}

const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// ErrNotInPod says that this process does not run in a pod.
var ErrNotInPod = errors.New("this is not a Kubernetes pod")

// InPod returns the cluster of the pod that this process runs in, with the rights of its
// service account.
func InPod() (*Cluster, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" {
		return nil, ErrNotInPod
	}
	client, err := Dial(filepath.Join(accountDir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	return &Cluster{
		API:       "https://" + net.JoinHostPort(host, cmp.Or(port, "443")),
		Namespace: PodNamespace(),
		TokenFile: filepath.Join(accountDir, "token"),
		HTTP:      client,
	}, nil
}

// PodNamespace returns the namespace of the pod that this process runs in, or "".
func PodNamespace() string {
	name, err := os.ReadFile(filepath.Join(accountDir, "namespace"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(name))
}

// Dial returns a client that trusts the authorities in caFile, or those of the system if it
// is empty.
func Dial(caFile string) (*http.Client, error) {
	if caFile == "" {
		return client(nil), nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	pool, err := authorities(pem, caFile)
	if err != nil {
		return nil, err
	}
	return client(&tls.Config{RootCAs: pool}), nil
}

func authorities(pem []byte, from string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s contains no certificate", from)
	}
	return pool, nil
}

func client(config *tls.Config) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	return &http.Client{Transport: transport}
}

// A Refusal is an answer other than success.
type Refusal struct {
	Status int
	// Message is what the API server says.
	Message string
	// Advice is what to do, or "".
	Advice string
}

// Error says what is wrong and, where that is known, what to do.
func (e *Refusal) Error() string {
	text := fmt.Sprintf("the API server answered %d: %s", e.Status, e.Message)
	if e.Advice != "" {
		text += ": " + e.Advice
	}
	return text
}

// statusOf returns the status of a [Refusal], or 0.
func statusOf(err error) int {
	if e, ok := errors.AsType[*Refusal](err); ok {
		return e.Status
	}
	return 0
}

// messageBytes bounds what is read of an error, documentBytes of a document.
const messageBytes, documentBytes = 64 << 10, 4 << 20

// Open asks for a path with a query, and returns the body of the answer.
func (c *Cluster) Open(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.send(ctx, http.MethodGet, path, "", nil)
}

// send sends a request and returns the body of the answer. One that is not a success is a
// [Refusal].
func (c *Cluster) send(ctx context.Context, method, path, contentType string, body []byte) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.API, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	token := c.Token
	if c.TokenFile != "" {
		text, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return nil, err
		}
		token = strings.TrimSpace(string(text))
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.HTTP.Do(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 == 2 {
		return response.Body, nil
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, messageBytes)) // what arrived of it is all there is to say
	var status struct{ Message string }
	if json.Unmarshal(text, &status) != nil || status.Message == "" {
		status.Message = strings.TrimSpace(string(text))
	}
	refused := &Refusal{Status: response.StatusCode, Message: cmp.Or(status.Message, response.Status)}
	if refused.Status == http.StatusUnauthorized {
		refused.Advice = "its token or certificate is not valid, or no longer"
	}
	return nil, refused
}

// An object names something in a namespace.
type object struct {
	group, version, plural, name, sub string
}

// path returns where the API server has an object.
func (o *object) path(namespace string) string {
	at := "/apis/" + o.group
	if o.group == "" {
		at = "/api"
	}
	at += "/" + o.version + "/namespaces/" + url.PathEscape(namespace) + "/" + o.plural
	if o.name != "" {
		at += "/" + url.PathEscape(o.name)
	}
	if o.sub != "" {
		at += "/" + o.sub
	}
	return at
}

// verbs are what roles call the methods.
var verbs = map[string]string{
	http.MethodGet:   "get",
	http.MethodPut:   "update",
	http.MethodPost:  "create",
	http.MethodPatch: "patch",
}

// do sends a document, nil for none, and reads the answer into another. Where that is
// forbidden, the error has the rule to add.
func (c *Cluster) do(ctx context.Context, method string, o *object, document, answer any) error {
	var body []byte
	contentType := ""
	if document != nil {
		var err error
		if body, err = json.Marshal(document); err != nil {
			return err
		}
		contentType = "application/json"
		if method == http.MethodPatch {
			contentType = "application/merge-patch+json"
		}
	}
	reply, err := c.send(ctx, method, o.path(c.Namespace), contentType, body)
	if err != nil {
		if refused, ok := errors.AsType[*Refusal](err); ok && refused.Status == http.StatusForbidden {
			resource := o.plural
			if o.sub != "" {
				resource += "/" + o.sub
			}
			refused.Advice = fmt.Sprintf("add to its role in namespace %s the rule {apiGroups: [%q], resources: [%s], "+
				"verbs: [%s]}", c.Namespace, o.group, resource, verbs[method])
		}
		return err
	}
	defer reply.Close()
	if err := json.NewDecoder(io.LimitReader(reply, documentBytes)).Decode(answer); err != nil {
		return fmt.Errorf("cannot parse the answer of the API server: %w", err)
	}
	return nil
}
