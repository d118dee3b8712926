package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"os"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:3316", "address for clients")
	backend := flag.String("backend", "127.0.0.1:3306", "address of the server")
	flag.Parse()
	if err := run(*listen, *backend); err != nil {
		fmt.Fprintln(os.Stderr, "forwarder:", err)
		os.Exit(1)
	}
}

func run(listen, backend string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	return serve(l, backend)
}

// serve forwards every connection that l accepts, until l is closed.
func serve(l net.Listener, backend string) error {
	for {
		client, err := l.Accept()
		if err != nil {
			return err
		}
		go forward(client, backend)
	}
}

// forward forwards one connection. It closes both sides when either side closes.
func forward(client net.Conn, backend string) {
	defer client.Close()
	server, err := net.Dial("tcp", backend)
	if err != nil {
		return // the client sees the connection close
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer client.Close()
		_, _ = io.Copy(client, server) // an error ends the connection
	}()
	_, _ = io.Copy(server, client)
	server.Close()
	<-done
}
