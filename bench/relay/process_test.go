package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

// serveEnv turns the test binary into a server on the address that it holds.
const serveEnv = "RELAY_TEST_SERVE"

func TestMain(m *testing.M) {
	if addr := os.Getenv(serveEnv); addr != "" {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for {
			c, err := l.Accept()
			if err != nil {
				os.Exit(1)
			}
			fmt.Fprintln(c, "hello")
			c.Close()
		}
	}
	os.Exit(m.Run())
}

func TestProcess(t *testing.T) {
	addr, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(serveEnv, addr)
	p, err := startProcess(t.Context(), "server", addr, os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if line, err := bufio.NewReader(c).ReadString('\n'); line != "hello\n" {
		t.Errorf("got %q and error %v from the server, want hello", line, err)
	}
	if _, err := readProcess(p.pid); err != nil {
		t.Error(err)
	}
	for range 2 { // stopping what has stopped is no error
		if err := p.stop(); err != nil {
			t.Error(err)
		}
	}
	if _, err := readProcess(p.pid); err == nil {
		t.Error("read a process that has ended")
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Error("the server outlived stop")
	}
}

func TestProcessEndsEarly(t *testing.T) {
	addr, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	_, err = startProcess(t.Context(), "server", addr, "sh", "-c", "echo no such option; exit 1")
	if err == nil || !strings.Contains(err.Error(), "no such option") {
		t.Errorf("got error %v, want what the process said", err)
	}
}
