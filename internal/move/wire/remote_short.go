package wire

import (
	"context"
	"fmt"
	"time"

	"github.com/taredb/tare/internal/mysql/rowpb"
	"github.com/taredb/tare/mysql/rowstream"
)

// A remoteShortView is a short view of a Service. Both sides end it, each by its clock: the client a tenth
// earlier, so that it knows the reason.
type remoteShortView struct {
	*remoteView
	*rowstream.Expiry
}

// ShortView implements Server.
func (r *Remote) ShortView(ctx context.Context, identity string, t *rowstream.Table, limit time.Duration) (rowstream.View, error) {
	ms := max(1, limit.Milliseconds())
	v := &remoteShortView{}
	taken := make(chan struct{}) // v.remoteView is set, or there is none
	v.Expiry = rowstream.NewExpiry(ctx, limit-limit/10, func() {
		<-taken
		if v.remoteView != nil {
			v.remoteView.end()
		}
	})
	within, cancel := v.Expiry.During(ctx)
	defer cancel()
	view, err := r.snapshot(within, &rowpb.SnapshotRequest{Workers: 1, LimitMs: ms, Identity: identity}, []*rowstream.Table{t})
	v.remoteView = view
	close(taken)
	if err == nil && view.limit != ms {
		err = fmt.Errorf("%s: the reader is too old for views with a limit (option max-view-age): update the tare rowstream there", r.Addr())
	}
	if err != nil {
		v.Expiry.Stop()
		if view != nil {
			_ = view.Close()
		}
		return nil, fmt.Errorf("take a view of %s: %w", t.FullName(), v.Explain(err))
	}
	return v, nil
}

// Reader returns the view's only reader.
func (v *remoteShortView) Reader(worker int) rowstream.ViewReader {
	return v.Expiry.Bind(&remoteReader{v: v.remoteView, worker: int32(worker)})
}

// Close ends the view.
func (v *remoteShortView) Close() error {
	v.Stop()
	return v.remoteView.Close()
}
