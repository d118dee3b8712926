package mysqlconn

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// Execute executes a prepared statement with a value for each of its parameters, and calls row for the payload of
// each row, which mysqlwire.BinaryRow decodes. The payload is valid until row returns. Errors are as those of
// Query.
func (c *Client) Execute(ctx context.Context, statement uint32, values []mysqlwire.BinaryValue, row func(payload []byte) error) (Result, error) {
	var p mysqlwire.StmtParams
	p.Reset(len(values))
	p.Values = values
	e := mysqlwire.StmtExecute{StatementID: statement, Iterations: 1, Params: p.AppendTo(nil, 0, c.Capabilities, true)}
	return c.command(ctx, "execute", e.AppendTo(nil), func(payload []byte, _ int) (rowErr, err error) { return row(payload), nil })
}

// CloseStatement deallocates a prepared statement. The server does not respond.
func (c *Client) CloseStatement(statement uint32) error {
	if c.broken {
		return ErrBroken
	}
	c.Seq = 0
	if err := c.WriteMessage(binary.LittleEndian.AppendUint32([]byte{byte(mysqlwire.ComStmtClose)}, statement)); err != nil {
		c.broken = true
		return fmt.Errorf("close statement: %w", err)
	}
	return nil
}
