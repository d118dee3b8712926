package mysqlconn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/taredb/tare/mysqlwire"
)

// loadPacket is the most bytes of a file that go into one packet: below the smallest
// max_allowed_packet in use, and enough that headers and system calls do not show.
const loadPacket = 512 << 10

// LoadResult is what a LOAD DATA statement did, as the server counted.
type LoadResult struct {
	Result
	Records, Deleted, Skipped uint64
}

// Load executes a LOAD DATA LOCAL INFILE statement. The file's bytes are those that fill
// gives to write; they go out as they are, in packets, without being copied. When fill
// answers an error, the connection is broken, so that the server drops the statement, and
// Load answers that error. The connection needs mysqlwire.CapLocalFiles. A server that
// refuses answers a *ServerError, and the connection stays usable.
//
// Specification: MySQL "LOCAL INFILE Request", MariaDB "LOCAL INFILE Packet".
func (c *Client) Load(ctx context.Context, sql string, fill func(write func([]byte) error) error) (LoadResult, error) {
	if c.broken {
		return LoadResult{}, ErrBroken
	}
	if !c.Capabilities.Has(mysqlwire.CapLocalFiles) {
		return LoadResult{}, errors.New("load: the server does not take files of clients: set local_infile=ON there, or insert the rows by statements")
	}
	var result LoadResult
	var fillErr error
	err := c.during(ctx, func() (err error) {
		fillErr, err = c.load(sql, fill, &result)
		return err
	})
	var refused *ServerError
	switch {
	case fillErr != nil:
		c.broken = true
		return result, fillErr
	case errors.As(err, &refused):
	case err != nil:
		c.broken = true
	}
	if err != nil {
		return result, fmt.Errorf("load: %w", err)
	}
	return result, nil
}

func (c *Client) load(sql string, fill func(write func([]byte) error) error, result *LoadResult) (fillErr, err error) {
	c.Seq = 0
	if err := c.WriteMessage(mysqlwire.AppendQuery(nil, []byte(sql), c.Capabilities)); err != nil {
		return nil, err
	}
	payload, err := c.read()
	switch {
	case err != nil:
		return nil, err
	case payload[0] == mysqlwire.MarkErr:
		return nil, decodeServerError(payload)
	case payload[0] != mysqlwire.MarkLocalInfile:
		return nil, errors.New("the server does not ask for the file: the statement is no LOAD DATA LOCAL INFILE")
	}
	if fillErr = fill(c.writeFile); fillErr != nil {
		return fillErr, nil
	}
	if err := c.WriteMessage(nil); err != nil {
		return nil, err
	}
	if payload, err = c.read(); err != nil {
		return nil, err
	}
	if payload[0] == mysqlwire.MarkErr {
		return nil, decodeServerError(payload)
	}
	if err := c.addOK(&result.Result, payload); err != nil {
		return nil, err
	}
	return nil, result.decodeInfo(payload, c.Capabilities)
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

// decodeInfo reads "Records: 3  Deleted: 0  Skipped: 0  Warnings: 0".
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
