package netloop_test

import (
	"fmt"
	"io"
	"net"

	"github.com/taredb/tare/internal/netloop"
)

// A server with straight-line code per connection, on two event loops.
func ExampleGroup_Go() {
	group, err := netloop.New(netloop.Options{Loops: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer group.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	accepted, err := listener.Accept()
	if err != nil {
		fmt.Println(err)
		return
	}

	conn := netloop.NewConn(accepted)
	err = group.Go(func(*netloop.Task) {
		defer conn.Close()
		buf := make([]byte, 512)
		for {
			n, err := conn.Read(buf) // suspends the task, not a thread
			if err != nil {
				return
			}
			if _, err := conn.Write(buf[:n]); err != nil {
				return
			}
		}
	}, func(*netloop.Conn) {}, conn)
	if err != nil {
		fmt.Println(err)
		return
	}

	fmt.Fprint(client, "hello")
	_ = client.(*net.TCPConn).CloseWrite()
	echo, err := io.ReadAll(client)
	fmt.Printf("%s %v\n", echo, err)
	_ = client.Close()
	// Output: hello <nil>
}
