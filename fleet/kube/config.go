package kube

import (
	"cmp"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml"
)

// kubeconfig is what is used of a kubeconfig file.
type kubeconfig struct {
	CurrentContext string `yaml:"current-context"`
	Contexts       []struct {
		Name    string
		Context struct{ Cluster, User, Namespace string }
	}
	Clusters []struct {
		Name    string
		Cluster clusterEntry
	}
	Users []struct {
		Name string
		User userEntry
	}
}

type clusterEntry struct {
	Server     string
	CA         string `yaml:"certificate-authority"`
	CAData     string `yaml:"certificate-authority-data"`
	ServerName string `yaml:"tls-server-name"`
	Insecure   bool   `yaml:"insecure-skip-tls-verify"`
}

type userEntry struct {
	Token     string
	TokenFile string `yaml:"tokenFile"`
	Cert      string `yaml:"client-certificate"`
	CertData  string `yaml:"client-certificate-data"`
	Key       string `yaml:"client-key"`
	KeyData   string `yaml:"client-key-data"`
	// These are not supported.
	Exec     any
	Provider any `yaml:"auth-provider"`
	Username string
}

// Load reads the current context of a kubeconfig file. Tokens and client certificates are
// understood; programs that print credentials are not run.
func Load(file string) (*Cluster, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var config kubeconfig
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("%s is not a kubeconfig: %w", file, err)
	}
	c, err := config.cluster(filepath.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// cluster returns the cluster of the current context. Paths of files are relative to dir.
func (k *kubeconfig) cluster(dir string) (*Cluster, error) {
	for _, context := range k.Contexts {
		if context.Name != k.CurrentContext {
			continue
		}
		entry, user, err := k.entries(context.Context.Cluster, context.Context.User)
		if err != nil {
			return nil, err
		}
		config, err := trust(entry, user, dir)
		if err != nil {
			return nil, err
		}
		return &Cluster{
			API:       entry.Server,
			Namespace: cmp.Or(context.Context.Namespace, "default"),
			Token:     user.Token,
			TokenFile: within(dir, user.TokenFile),
			HTTP:      client(config),
		}, nil
	}
	return nil, fmt.Errorf("its current context %q does not exist", k.CurrentContext)
}

// entries returns a cluster and a user by their names.
func (k *kubeconfig) entries(cluster, user string) (*clusterEntry, *userEntry, error) {
	var entry *clusterEntry
	for i := range k.Clusters {
		if k.Clusters[i].Name == cluster {
			entry = &k.Clusters[i].Cluster
		}
	}
	if entry == nil || entry.Server == "" {
		return nil, nil, fmt.Errorf("the cluster %q does not exist or has no server", cluster)
	}
	if user == "" {
		return entry, &userEntry{}, nil
	}
	for i := range k.Users {
		if k.Users[i].Name != user {
			continue
		}
		u := &k.Users[i].User
		if u.Exec != nil || u.Provider != nil || u.Username != "" {
			return nil, nil, fmt.Errorf("the user %q signs in by a program or a password, which is not supported: "+
				"give it a token, as kubectl create token SERVICE_ACCOUNT prints one", user)
		}
		return entry, u, nil
	}
	return nil, nil, fmt.Errorf("the user %q does not exist", user)
}

// trust returns which certificates are trusted and shown.
func trust(c *clusterEntry, u *userEntry, dir string) (*tls.Config, error) {
	config := &tls.Config{ServerName: c.ServerName, InsecureSkipVerify: c.Insecure}
	ca, err := dataOf(c.CAData, within(dir, c.CA), "certificate-authority")
	if err != nil {
		return nil, err
	}
	if ca != nil {
		if config.RootCAs, err = authorities(ca, "certificate-authority"); err != nil {
			return nil, err
		}
	}
	cert, err := dataOf(u.CertData, within(dir, u.Cert), "client-certificate")
	if err != nil {
		return nil, err
	}
	key, err := dataOf(u.KeyData, within(dir, u.Key), "client-key")
	if err != nil {
		return nil, err
	}
	if (cert == nil) != (key == nil) {
		return nil, errors.New("client-certificate and client-key go together")
	}
	if cert != nil {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("client-certificate and client-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// dataOf returns what a file or the text in base64 has, nil if there is neither.
func dataOf(text, file, name string) ([]byte, error) {
	switch {
	case text != "":
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("%s-data is not base64: %w", name, err)
		}
		return data, nil
	case file != "":
		return os.ReadFile(file)
	}
	return nil, nil
}

// within returns the path of a file that a kubeconfig in dir names.
func within(dir, file string) string {
	if file == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}
