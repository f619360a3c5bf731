// CoreDNS with no more plugins than a lab's Corefile names (crates/tf-testing/src/real/dns.rs). With all of them it takes as long
// to build as Kubernetes.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() {
	coremain.Run()
}
