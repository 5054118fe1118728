// Package kube is a small client of the Kubernetes API: the scale subresource, leases, the
// deletion cost of pods, and reading. These are a few documents over plain HTTP. The
// official client library would add hundreds of packages for them.
package kube
