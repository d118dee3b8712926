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
max_total_connections=4096
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

// routerSharing returns a connection to the pool after each statement outside of a transaction. Router has no limit
// of the connections in use.
const routerSharing = `client_ssl_mode=DISABLED
server_ssl_mode=DISABLED
connection_sharing=1
connection_sharing_delay=0
[connection_pool]
max_idle_server_connections=64
`

func (l *lab) startRouter(ctx context.Context, by, addr string) (*way, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	w := &way{by: by}
	if w.dir, err = os.MkdirTemp("", "relay-router"); err != nil {
		return nil, err
	}
	config := fmt.Sprintf(routerConfig, w.dir, host, port, l.server.Addr)
	if by == bySharing {
		config += routerSharing
	}
	file, err := l.writeFile(by+".conf", config)
	if err != nil {
		return w, err
	}
	w.process, err = programs.Serve(ctx, by, addr, l.tools.router, "--config", file)
	return w, err
}
