// Package monitor shows what a server does: ps once, top for as long as one looks.
package monitor
