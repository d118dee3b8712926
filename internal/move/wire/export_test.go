package wire

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/internal/vtcodec"
	"github.com/taredb/tare/mysql/rowstream"
)

// Hooks of the external tests.

// StreamWindow is the maximum number of bytes of a stream in flight.
const StreamWindow = streamWindow

// SetRecordPause sets the interval at which streams of changes are logged.
func (s *Service) SetRecordPause(pause time.Duration) { s.recordPause = pause }

// EachWorker calls visit with each worker of the open snapshots: turn has a value while the worker is idle, and room
// returns the capacities of its buffers, which must not be called otherwise.
func (s *Service) EachWorker(visit func(turn chan struct{}, room func() map[string]int)) {
	for _, v := range s.snapshots {
		for _, w := range v.workers {
			visit(w.turn, func() map[string]int {
				return map[string]int{"packed batch": cap(w.packed), "message": cap(w.batch.Bytes)}
			})
		}
	}
}

// ReaderRoom returns the capacities of the buffers of a Remote's reader.
func ReaderRoom(r rowstream.Reader) map[string]int {
	x := r.(*remoteReader)
	return map[string]int{"message": cap(x.message.Bytes), "unpacked batch": cap(x.room), "batch": cap(x.batch.Bytes)}
}

// SnapshotID returns the number of the snapshot of a Remote's view.
func SnapshotID(v rowstream.View) uint64 { return v.(*remoteView).id }

// DetachedReader returns a reader of a snapshot whose streams last as long as ctx, and not as long as the view.
func DetachedReader(ctx context.Context, r *Remote, snapshot uint64) rowstream.ViewReader {
	return &remoteReader{v: &remoteView{r: r, id: snapshot, life: ctx}}
}

// OpenUnchecked returns a client of a service that it has not checked, and its connection.
func OpenUnchecked(addr, token string) (*Remote, *grpc.ClientConn, error) {
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(vtcodec.Codec{}))}
	if token != "" {
		options = append(options, grpc.WithPerRPCCredentials(newTokenCredential(token)))
	}
	conn, err := grpc.NewClient("passthrough:///"+addr, options...)
	if err != nil {
		return nil, nil, err
	}
	return &Remote{o: RemoteOptions{Addr: addr}, conn: conn, rows: rowpb.NewRowsClient(conn)}, conn, nil
}
