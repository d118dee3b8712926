package mysqlconn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// loadPacket is the maximum number of a file's bytes per packet: below the smallest max_allowed_packet in
// use, and large enough to make the cost of headers and system calls negligible.
const loadPacket = 512 << 10

// LoadResult is the outcome of a LOAD DATA statement, as counted by the server.
type LoadResult struct {
	Result
	Records, Deleted, Skipped uint64
}

// Load executes a LOAD DATA LOCAL INFILE statement. The file's contents are the bytes that fill passes to
// write; they are sent in packets without being copied. If fill returns an error, Load returns it and the
// connection is broken, so that the server discards the statement. The connection must have
// mysqlwire.CapLocalFiles. If the server refuses, the error is a *ServerError and the connection stays
// usable.
//
// Specification: MySQL "LOCAL INFILE Request", MariaDB "LOCAL INFILE Packet".
func (c *Client) Load(ctx context.Context, sql string, fill func(write func([]byte) error) error) (LoadResult, error) {
	if err := c.BeginLoad(ctx, sql); err != nil {
		return LoadResult{}, err
	}
	if err := fill(func(b []byte) error { return c.WriteLoad(ctx, b) }); err != nil {
		c.broken = true
		return LoadResult{}, err
	}
	return c.EndLoad(ctx)
}

// BeginLoad starts a LOAD DATA LOCAL INFILE statement as Load does. Only WriteLoad and EndLoad may follow. To
// abort, close the connection.
func (c *Client) BeginLoad(ctx context.Context, sql string) error {
	if c.broken {
		return ErrBroken
	}
	if !c.Capabilities.Has(mysqlwire.CapLocalFiles) {
		return errors.New("load: the server does not take files of clients: set local_infile=ON there, or insert the rows by statements")
	}
	return c.loading(ctx, func() error {
		c.Seq = 0
		if err := c.WriteMessage(mysqlwire.AppendQuery(nil, []byte(sql), c.Capabilities)); err != nil {
			return err
		}
		payload, err := c.read()
		switch {
		case err != nil:
			return err
		case payload[0] == mysqlwire.MarkErr:
			return decodeServerError(payload, c.ServerVersion)
		case payload[0] != mysqlwire.MarkLocalInfile:
			return errors.New("the server does not ask for the file: the statement is no LOAD DATA LOCAL INFILE")
		}
		return nil
	})
}

// WriteLoad sends bytes of the file unchanged. EndLoad returns the error of a server that refuses them.
func (c *Client) WriteLoad(ctx context.Context, b []byte) error {
	return c.loading(ctx, func() error { return c.writeFile(b) })
}

// EndLoad ends the file and returns the server's result.
func (c *Client) EndLoad(ctx context.Context) (result LoadResult, err error) {
	err = c.loading(ctx, func() error {
		if err := c.WriteMessage(nil); err != nil {
			return err
		}
		payload, err := c.read()
		if err != nil {
			return err
		}
		if payload[0] == mysqlwire.MarkErr {
			return decodeServerError(payload, c.ServerVersion)
		}
		if err := c.addOK(&result.Result, payload); err != nil {
			return err
		}
		return result.decodeInfo(payload, c.Capabilities)
	})
	return result, err
}

// loading runs one step of a load. Any error but a server's leaves the connection broken.
func (c *Client) loading(ctx context.Context, part func() error) error {
	if c.broken {
		return ErrBroken
	}
	err := c.during(ctx, part)
	if err == nil {
		return nil
	}
	if refused := new(ServerError); !errors.As(err, &refused) {
		c.broken = true
	}
	return fmt.Errorf("load: %w", err)
}

// writeFile writes bytes of the file as packets.
func (c *Client) writeFile(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), loadPacket)
		c.out = mysqlwire.Header{Len: n, Seq: c.Seq}.AppendTo(c.out)
		c.Seq++
		if err := c.Flush(); err != nil {
			return err
		}
		if _, err := c.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// decodeInfo parses "Records: 3  Deleted: 0  Skipped: 0  Warnings: 0".
func (r *LoadResult) decodeInfo(payload []byte, caps mysqlwire.Capability) error {
	var ok mysqlwire.OK
	if err := ok.Decode(payload, caps); err != nil {
		return err
	}
	for _, want := range []struct {
		name string
		to   *uint64
	}{{"Records", &r.Records}, {"Deleted", &r.Deleted}, {"Skipped", &r.Skipped}} {
		_, rest, found := bytes.Cut(ok.Info, []byte(want.name+": "))
		digits, _, _ := bytes.Cut(rest, []byte{' '})
		n, err := strconv.ParseUint(string(digits), 10, 64)
		if !found || err != nil {
			return fmt.Errorf("%w: the server's count of loaded rows reads %q", mysqlwire.ErrMalformedPacket, ok.Info)
		}
		*want.to = n
	}
	return nil
}
