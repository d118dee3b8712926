package rowstream

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/mysqlconn"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/rowstream/rowpb"
)

// ServerIdentity returns what a server is known by under all of its addresses: MySQL's server_uuid, which is of a data
// directory; MariaDB's server_uid, which is of a host and a port, or the host's name and the port before MariaDB 10.10, each with
// the server's id. A copy of a data directory may have the identity of the original, and a MariaDB that moves to another host
// has another one.
func ServerIdentity(ctx context.Context, c *mysqlconn.Client) (string, error) {
	sql := "SELECT CONCAT('mysql ', @@global.server_uuid)"
	if isMaria(c.ServerVersion) {
		var uid string
		if _, err := c.Query(ctx, "SHOW GLOBAL VARIABLES LIKE 'server_uid'", func(row mysqlwire.TextRow) error {
			uid = string(row[1])
			return nil
		}); err != nil {
			return "", fmt.Errorf("read the server's identity: %w", err)
		}
		sql = "SELECT CONCAT('mariadb ', @@global.server_id, ' ', @@global.hostname, ':', @@global.port)"
		if uid != "" {
			sql = "SELECT CONCAT('mariadb ', @@global.server_id, ' ', @@global.server_uid)"
		}
	}
	identity := ""
	if _, err := c.Query(ctx, sql, func(row mysqlwire.TextRow) error {
		identity = string(row[0])
		return nil
	}); err != nil {
		return "", fmt.Errorf("read the server's identity: %w", err)
	}
	return identity, nil
}

// Identity returns the ServerIdentity of the server.
func (d *Direct) Identity(ctx context.Context) (_ string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.connect(ctx); err != nil {
		return "", err
	}
	defer func() { d.failed(err) }()
	return ServerIdentity(ctx, d.c)
}

// identified is a Server that has an identity.
type identified interface {
	Identity(ctx context.Context) (string, error)
}

var (
	_ identified = (*Direct)(nil)
	_ identified = (*Remote)(nil)
)

// Identity returns the ServerIdentity of the server behind the service, or Addr where the service is of a version that does not
// report it, or its server has none.
func (r *Remote) Identity(ctx context.Context) (string, error) {
	m, err := r.rows.Identify(ctx, &rowpb.IdentifyRequest{})
	switch {
	case status.Code(err) == codes.Unimplemented:
		return r.Addr(), nil
	case err != nil:
		return "", errorOf(ctx, r.Addr(), err)
	case m.Identity == "":
		return r.Addr(), nil
	}
	return m.Identity, nil
}

// Identify implements rowpb.RowsServer.
func (s *Service) Identify(ctx context.Context, _ *rowpb.IdentifyRequest) (*rowpb.IdentifyReply, error) {
	c := s.begin(ctx, "identify", nil)
	reply := &rowpb.IdentifyReply{}
	var err error
	if from, ok := s.o.Server.(identified); ok {
		reply.Identity, err = from.Identity(ctx)
	}
	if err = c.end(err); err != nil {
		return nil, err
	}
	return reply, nil
}
