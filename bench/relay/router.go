package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/taredb/tare/bench/programs"
)

// routerConfig is MySQL Router's default configuration of a route to one server, except for directories and the number of connections.
const routerConfig = `[DEFAULT]
logging_folder=
runtime_folder=%[1]s
data_folder=%[1]s
keyring_path=%[1]s/keyring
[logger]
level=warning
[routing:bench]
bind_address=%[2]s
bind_port=%[3]s
destinations=%[4]s
routing_strategy=first-available
protocol=classic
max_connections=4096
`

func (l *lab) startRouter(ctx context.Context, addr string) (*way, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	w := &way{by: byRouter}
	if w.dir, err = os.MkdirTemp("", "relay-router"); err != nil {
		return nil, err
	}
	file, err := l.writeFile("router.conf", fmt.Sprintf(routerConfig, w.dir, host, port, l.server.Addr))
	if err != nil {
		return w, err
	}
	w.process, err = programs.Serve(ctx, byRouter, addr, l.tools.router, "--config", file)
	return w, err
}
