// Command certmanager is the part of cert-manager's controller that makes certificates with issuers of the kinds CA and SelfSigned, in one
// binary, made of its published packages: its own command is in a module that cannot be fetched.
//
// Without ACME, Vault, the shims for Ingress and Gateway, webhooks, and leader election: it is alone in a laboratory.
package main

import (
	"context"
	"flag"
	"log"
	"os/signal"
	"syscall"

	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	"golang.org/x/sync/errgroup"
)

// Workers of each controller; cert-manager's default.
const workers = 5

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the cluster")
	namespace := flag.String("cluster-resource-namespace", "default", "where cluster issuers have their Secrets")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *namespace); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, kubeconfig, namespace string) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:         kubeconfig,
		KubernetesAPIQPS:   50,
		KubernetesAPIBurst: 100,
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: namespace},
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, make := range controller.Known() {
		made, err := make(factory)
		if err != nil {
			return err
		}
		group.Go(func() error { return made.Run(workers, ctx) })
	}
	common, err := factory.Build()
	if err != nil {
		return err
	}
	common.SharedInformerFactory.Start(ctx.Done())
	common.KubeSharedInformerFactory.Start(ctx.Done())
	return group.Wait()
}
