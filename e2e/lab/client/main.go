// Command client asks the API server for its versions, as a pod does: at the URL it is given, with the token and the CA of its
// ServiceAccount. It says what came of it, once as the ServiceAccount and once as nobody. Until somebody answers it asks again.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

func main() {
	token, err := os.ReadFile(account + "token")
	check(err)
	authority, err := os.ReadFile(account + "ca.crt")
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	client := http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
	}
	for who, authorization := range map[string]string{"account": "Bearer " + strings.TrimSpace(string(token)), "nobody": ""} {
		request, err := http.NewRequest(http.MethodGet, os.Args[1], nil)
		check(err)
		if authorization != "" {
			request.Header.Set("Authorization", authorization)
		}
		for {
			response, err := client.Do(request)
			if err != nil {
				fmt.Println(err)
				time.Sleep(time.Second)
				continue
			}
			body, err := io.ReadAll(response.Body)
			check(err)
			fmt.Printf("%s: %s %s\n", who, response.Status, strings.Join(strings.Fields(string(body)), ""))
			break
		}
	}
	fmt.Println("done")
}

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
