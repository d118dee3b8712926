package wire_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"time"

	"github.com/taredb/tare/internal/move/wire"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// animals is a server with one small table. rowstream.OpenDirect returns real ones.
type animals struct{}

func (animals) Addr() string { return "memory" }

func (animals) Identity(context.Context) (string, error) { return "", nil }

func (animals) Close() error { return nil }

func (animals) Describe(_ context.Context, schema, name string) (*rowstream.Table, error) {
	return &rowstream.Table{
		Schema: schema, Name: name, Key: []int{0}, KeyName: "PRIMARY",
		Columns: []rowstream.Column{{Name: "id", Type: "int", FullType: "int(11)"}, {Name: "name", Type: "varchar", FullType: "varchar(20)"}},
	}, nil
}

func (animals) Snapshot(context.Context, int, []*rowstream.Table) (rowstream.View, error) {
	return animalsView{}, nil
}

func (animals) ShortView(context.Context, string, *rowstream.Table, time.Duration) (rowstream.View, error) {
	return animalsView{}, nil
}

// An animalsView is a view of the table, and its only reader.
type animalsView struct{}

func (animalsView) How() string { return "it never changes" }

func (animalsView) Position() string { return "" }

func (animalsView) Identity() string { return "" }

func (v animalsView) Reader(int) rowstream.ViewReader { return v }

func (animalsView) Close() error { return nil }

func (animalsView) Cut(_ context.Context, _ *rowstream.Table, _ int64, from rowstream.Chunk) (rowstream.Chunk, error) {
	return from, nil // the rest of the table
}

func (animalsView) Read(_ context.Context, _ *rowstream.Table, _ rowstream.Chunk, o rowstream.ReadOptions) iter.Seq2[*rowstream.Batch, error] {
	var b rowstream.Batch
	b.Reset(2)
	b.AppendRow(mysqlwire.TextRow{[]byte("1"), []byte("ann")})
	b.AppendRow(mysqlwire.TextRow{[]byte("2"), nil})
	*o.Count += int64(b.Rows) // a service counts them
	return func(yield func(*rowstream.Batch, error) bool) { yield(&b, nil) }
}

func (animalsView) SumChunk(context.Context, *rowstream.Table, rowstream.Chunk, rowstream.SumOptions) (rowstream.Checksum, error) {
	return rowstream.Checksum{}, errors.ErrUnsupported
}

func (animalsView) SumRows(context.Context, *rowstream.Table, rowstream.Chunk, rowstream.SumOptions) iter.Seq2[rowstream.RowSum, error] {
	return func(yield func(rowstream.RowSum, error) bool) { yield(rowstream.RowSum{}, errors.ErrUnsupported) }
}

func (animalsView) LastKey(context.Context, *rowstream.Table) (mysqlwire.TextRow, error) {
	return mysqlwire.TextRow{[]byte("2")}, nil
}

// Serves a source, and reads a table from it through a client.
func ExampleService() {
	service, err := wire.NewService(wire.ServiceOptions{Server: animals{}, Token: "rows"})
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := service.NewServer()
	served := make(chan error)
	go func() { served <- server.Serve(l) }()

	if err := readAll(context.Background(), l.Addr().String()); err != nil {
		panic(err)
	}
	left := service.Drain(context.Background())
	server.Stop()
	fmt.Println(<-served, left, service.Stats().Rows)
	// Output:
	// it never changes
	// id 1, name ann
	// id 2, name is NULL
	// <nil> 0 2
}

// readAll prints the rows of a table, chunk by chunk.
func readAll(ctx context.Context, addr string) error {
	remote, err := wire.OpenRemote(ctx, wire.RemoteOptions{Addr: addr, Token: "rows", Compression: wire.Zstd})
	if err != nil {
		return err
	}
	defer func() { _ = remote.Close() }()
	table, err := remote.Describe(ctx, "zoo", "animals")
	if err != nil {
		return err
	}
	view, err := remote.Snapshot(ctx, 1, []*rowstream.Table{table})
	if err != nil {
		return err
	}
	defer func() { _ = view.Close() }()
	fmt.Println(view.How())

	reader := view.Reader(0)
	var row mysqlwire.TextRow // reused for every row
	for chunk := (rowstream.Chunk{Number: 1}); ; {
		if chunk, err = reader.Cut(ctx, table, 16<<20, chunk); err != nil {
			return err
		}
		for b, err := range reader.Read(ctx, table, chunk, rowstream.ReadOptions{}) {
			if err != nil {
				return err
			}
			for at := 0; at < len(b.Bytes); {
				if at, err = b.Row(at, &row); err != nil {
					return err
				}
				name := " " + string(row[1])
				if row[1] == nil {
					name = " is NULL"
				}
				fmt.Printf("id %s, name%s\n", row[0], name)
			}
		}
		if chunk.Upto == nil {
			return nil
		}
		chunk = rowstream.Chunk{Number: chunk.Number + 1, After: chunk.Upto}
	}
}

// Reads a table of a MySQL or MariaDB server through the service beside it.
func ExampleOpenRemote() {
	ctx := context.Background()
	remote, err := wire.OpenRemote(ctx, wire.RemoteOptions{Addr: "db1:3319", Token: "rows"})
	if err != nil {
		panic(err)
	}
	defer func() { _ = remote.Close() }()
	table, err := remote.Describe(ctx, "shop", "orders")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(table.FullName(), "has about", table.RowsEstimate, "rows")
}
