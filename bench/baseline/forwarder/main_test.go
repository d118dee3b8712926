package main

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

func TestForward(t *testing.T) {
	server := listen(t)
	go func() {
		c, err := server.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.Copy(c, io.LimitReader(c, 5)) // echoes five bytes and hangs up
	}()
	front := listen(t)
	go func() { _ = serve(front, server.Addr().String()) }() // until the test closes front

	client, err := net.Dial("tcp", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := io.WriteString(client, "hello"); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if _, err := io.Copy(&got, client); err != nil {
		t.Fatal(err)
	}
	if got.String() != "hello" {
		t.Errorf("got %q through the forwarder, want hello and the server's hang-up", got.String())
	}
}

func TestForwardWithoutServer(t *testing.T) {
	gone := listen(t)
	gone.Close()
	front := listen(t)
	go func() { _ = serve(front, gone.Addr().String()) }() // until the test closes front

	client, err := net.Dial("tcp", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if n, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read %d bytes and error %v from a forwarder without a server, want its hang-up", n, err)
	}
}

func listen(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
