package rows

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	binlogdatapb "vitess.io/vitess/go/vt/proto/binlogdata"
	querypb "vitess.io/vitess/go/vt/proto/query"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/vtcodec"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// packetSize is the number of bytes of rows per message, as in Vitess' streamer.
const packetSize = 250_000

// interval is the interval of a throttle.
const interval = 250 * time.Millisecond

const method = "/rows/Read"

// A Server streams the rows of a statement, which is the text of the request.
type Server struct {
	Source mysqlconn.Config
	Plan   *Plan
}

// NewServer returns a gRPC server for the stream.
func (s *Server) NewServer() *grpc.Server {
	g := grpc.NewServer(grpc.ForceServerCodecV2(vtcodec.Codec{}))
	g.RegisterService(&grpc.ServiceDesc{
		ServiceName: "rows", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: "Read", ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
			var statement querypb.BoundQuery
			if err := stream.RecvMsg(&statement); err != nil {
				return err
			}
			return s.read(stream, statement.Sql)
		}}},
	}, s)
	return g
}

func (s *Server) read(stream grpc.ServerStream, sql string) error {
	client, err := session.Connect(stream.Context(), s.Source)
	if err != nil {
		return err
	}
	defer client.Close()
	client.Seq = 0
	if err := client.WriteMessage(mysqlwire.AppendQuery(nil, []byte(sql), client.Capabilities)); err != nil {
		return err
	}
	c := NewConn(bufio.NewReaderSize(client.NetConn(), 16<<10), 1)
	columns, err := c.begin(client.Capabilities)
	if err != nil {
		return err
	}
	throttle := &Throttle{Interval: interval, Ask: func() bool { return true }}
	response, size := &binlogdatapb.VStreamRowsResponse{}, 0
	for {
		data, err := c.ReadPacket()
		if err != nil {
			return err
		}
		if data[0] >= 0xFE && len(data) < 1<<24-1 {
			break
		}
		if !throttle.OK() {
			return errors.New("throttled")
		}
		row, err := ParseRow(data, columns)
		if err != nil {
			return err
		}
		row, ok := s.Plan.Filter(row)
		if !ok {
			continue
		}
		m := ToMessage(row)
		response.Rows = append(response.Rows, m)
		if size += len(m.Values); size >= packetSize {
			if err := stream.SendMsg(response); err != nil {
				return err
			}
			response, size = &binlogdatapb.VStreamRowsResponse{}, 0
		}
	}
	return stream.SendMsg(response)
}

// begin reads up to the first row.
func (c *Conn) begin(caps mysqlwire.Capability) (columns int, err error) {
	data, err := c.ReadPacket()
	if err != nil {
		return 0, err
	}
	if data[0] == 0xFF {
		return 0, fmt.Errorf("the server refuses: %s", data[3:])
	}
	columns, _ = length(data)
	for range columns {
		if _, err := c.ReadPacket(); err != nil {
			return 0, err
		}
	}
	if !caps.Has(mysqlwire.CapDeprecateEOF) {
		_, err = c.ReadPacket()
	}
	return columns, err
}

// Copy writes the rows of a statement into a table of the target, in transactions of about the given number
// of bytes, and returns the number of rows.
func Copy(ctx context.Context, addr, sql string, target mysqlconn.Config, table string, transaction int) (rows uint64, err error) {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(vtcodec.Codec{}), grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	target.Capabilities |= mysqlwire.CapLocalFiles
	c, err := session.Connect(ctx, target)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(stream.SendMsg(&querypb.BoundQuery{Sql: sql}), stream.CloseSend()); err != nil {
		return 0, err
	}
	for more := true; more; {
		res, err := c.Load(ctx, "LOAD DATA LOCAL INFILE 'rows' REPLACE INTO TABLE "+table+" "+rowstream.LoadFormat, func(write func([]byte) error) (err error) {
			more, err = forward(stream, transaction, write)
			return err
		})
		rows += res.Records
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// forward writes about size bytes of rows from the stream. It returns false at the stream's end.
func forward(stream grpc.ClientStream, size int, write func([]byte) error) (more bool, err error) {
	for size > 0 {
		response := &binlogdatapb.VStreamRowsResponse{}
		if err := stream.RecvMsg(response); err == io.EOF {
			return false, nil
		} else if err != nil {
			return false, err
		}
		var text []byte
		for _, m := range response.Rows {
			row, err := FromMessage(m)
			if err != nil {
				return false, err
			}
			text = AppendLoad(text, row)
		}
		size -= len(text)
		if err := write(text); err != nil {
			return false, err
		}
	}
	return true, nil
}
