// One etcd member that keeps nothing safe: a test's store, gone with it.
package main

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	dir := flag.String("data-dir", "", "where the data goes")
	client := flag.String("listen-client-urls", "http://127.0.0.1:2379", "where clients are served")
	peer := flag.String("listen-peer-urls", "http://127.0.0.1:2380", "where members are served")
	name := flag.String("name", "default", "this member")
	cluster := flag.String("initial-cluster", "", "every member: NAME=PEER-URL,… (this one alone)")
	flag.Parse()
	if err := run(*dir, *client, *peer, *name, *cluster); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		os.Exit(1)
	}
}

func run(dir, client, peer, name, cluster string) error {
	clientURL, err := url.Parse(client)
	if err != nil {
		return err
	}
	peerURL, err := url.Parse(peer)
	if err != nil {
		return err
	}
	config := embed.NewConfig()
	config.Name = name
	config.Dir = dir
	config.ListenClientUrls = []url.URL{*clientURL}
	config.AdvertiseClientUrls = config.ListenClientUrls
	config.ListenPeerUrls = []url.URL{*peerURL}
	config.AdvertisePeerUrls = config.ListenPeerUrls
	config.InitialCluster = cluster
	if cluster == "" {
		config.InitialCluster = name + "=" + peer
	}
	config.UnsafeNoFsync = true
	config.LogLevel = "warn"
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-server.Server.ReadyNotify()
	fmt.Println("ready")
	select {
	case <-stop:
		return nil
	case err := <-server.Err():
		return err
	}
}
