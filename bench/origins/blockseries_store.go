package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/thanos-io/objstore/providers/filesystem"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/taredb/tare/bench/baseline/chunks"
	"github.com/taredb/tare/internal/slab"
	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/storeapi"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/store/storegateway"
	"github.com/taredb/tare/store/tsblock"
)

// A storeCase is a store to be profiled.
type storeCase struct {
	Side string `json:"side"` // old or new
	Dir  string `json:"dir"`  // of the block
}

// storePart is a process that serves one block over the StoreAPI, and returns a profile for each line of
// input.
func storePart(spec []byte, in io.Reader, out io.Writer) (err error) {
	countAllObjects()
	var c storeCase
	if err := json.Unmarshal(spec, &c); err != nil {
		return fmt.Errorf("read the case: %w", err)
	}
	data, err := os.MkdirTemp("", "store-")
	if err != nil {
		return fmt.Errorf("make a data directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	bucket, err := filesystem.NewBucket(c.Dir)
	if err != nil {
		return fmt.Errorf("open the bucket: %w", err)
	}
	g, err := storegateway.New(storegateway.Options{
		Options: blocksync.Options{
			Bucket:      bucket,
			LocalBucket: c.Dir,
			DataDir:     data,
			Layout:      blocksync.LayoutThanos,
			Cache:       tsblock.NewCache(64 << 20),
			Pool:        slab.NewPool(slab.PoolOptions{}),
			Log:         slog.New(slog.DiscardHandler),
		},
		Gate: slab.NewGate(slab.GateOptions{Bytes: 1 << 30, PerQuery: 256 << 20}),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if err := g.Sync(context.Background()); err != nil {
		return err
	}
	server := storeapi.New(g, storeapi.Options{}).NewServer()
	if c.Side == "old" {
		id := g.Blocks()[0].ID
		text, err := os.ReadFile(filepath.Join(c.Dir, id, tsblock.MetaFile))
		if err != nil {
			return fmt.Errorf("read the block: %w", err)
		}
		meta, err := tsblock.ParseMeta(text)
		if err != nil {
			return fmt.Errorf("read the block: %w", err)
		}
		block, err := tsblock.New(tsblock.Dir(c.Dir), id, meta, tsblock.Options{
			Cache: tsblock.NewCache(64 << 20), Pool: slab.NewPool(slab.PoolOptions{}),
			Entries: tsblock.NewEntries(slab.EntriesOptions{}), LocalDir: data,
		})
		if err != nil {
			return err
		}
		defer block.Close()
		server = grpc.NewServer()
		storepb.RegisterStoreServer(server, &twinStore{chunks: chunks.NewStore(block, bucket)})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	err = responseProfiles(in, out, storeAddr{Listen: listener.Addr().String()})
	server.Stop()
	return errors.Join(err, <-served)
}

// responseProfiles writes the address of the server, and a profile for each value of the input.
func responseProfiles(in io.Reader, out io.Writer, p storeAddr) error {
	responses := json.NewEncoder(out)
	if err := responses.Encode(p); err != nil {
		return fmt.Errorf("say where the store is: %w", err)
	}
	for asked := json.NewDecoder(in); ; {
		var one bool
		if err := asked.Decode(&one); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read what is asked: %w", err)
		}
		if err := responses.Encode(readObjectProfile()); err != nil {
			return fmt.Errorf("write a profile: %w", err)
		}
	}
}

// A twinStore serves the StoreAPI's Series in the state before the change: a message per series, with an
// object per chunk, which a loader of the same kind has allocated. It does not have the two further objects
// per chunk of today's generated code, which has pointers where the original had values.
type twinStore struct {
	storepb.UnimplementedStoreServer

	chunks *chunks.Store
}

// Series implements the StoreAPI.
func (s *twinStore) Series(r *storepb.SeriesRequest, stream storepb.Store_SeriesServer) error {
	var matchers []*labels.Matcher
	for _, m := range r.GetMatchers() {
		matcher, err := labels.NewMatcher(labels.MatchType(m.GetType()), m.GetName(), m.GetValue())
		if err != nil {
			return fmt.Errorf("read a matcher: %w", err)
		}
		matchers = append(matchers, matcher)
	}
	shard, matchers, err := tsblock.TakeShard(matchers)
	if err != nil {
		return err
	}
	return s.chunks.Select(stream.Context(), shard, func(ls []tsblock.Label, times []tsblock.Chunk, loaded []*chunks.Chunk) error {
		series := &storepb.Series{Chunks: make([]*storepb.AggrChunk, len(loaded))}
		for _, l := range ls {
			series.Labels = append(series.Labels, &storepb.Label{Name: l.Name, Value: l.Value})
		}
		aggregates, raws := make([]storepb.AggrChunk, len(loaded)), make([]storepb.Chunk, len(loaded))
		for i, c := range loaded {
			raw, a := &raws[i], &aggregates[i]
			raw.Type, raw.Data = storepb.Chunk_Encoding(c.Encoding-1), c.Data
			a.MinTime, a.MaxTime, a.Raw = times[i].MinTime, times[i].MaxTime, raw
			series.Chunks[i] = a
		}
		return stream.Send(&storepb.SeriesResponse{Result: &storepb.SeriesResponse_Series{Series: series}})
	}, matchers...)
}

// storeAddr is where a store listens.
type storeAddr struct {
	Listen string `json:"listen"`
}

// A storeProcess is a running store and a connection to it.
type storeProcess struct {
	*part
	conn *grpc.ClientConn
}

func startStore(c storeCase) (*storeProcess, error) {
	var at storeAddr
	p, err := startPart("store", c, &at)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(at.Listen, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to the store: %w", err), p.stop())
	}
	return &storeProcess{p, conn}, nil
}

func (s *storeProcess) close() error { return errors.Join(s.conn.Close(), s.stop()) }

// askAll sends all queries of the benchmark, one after the other, and returns their number.
func (s *storeProcess) askAll() (int, error) {
	n := 0
	for _, sharded := range []bool{false, true} {
		for _, q := range testblock.SeriesQueries(sharded) {
			if err := s.ask(q); err != nil {
				return n, fmt.Errorf("query %d: %w", n, err)
			}
			n++
		}
	}
	return n, nil
}

func (s *storeProcess) ask(q testblock.SeriesQuery) error {
	r := &storepb.SeriesRequest{
		MinTime: math.MinInt64, MaxTime: math.MaxInt64,
		Matchers: []*storepb.LabelMatcher{{Type: storepb.LabelMatcher_RE, Name: q.Matcher.Name, Value: q.Matcher.Value}},
	}
	if q.Sharded {
		shard := tsblock.Shard{Index: q.Shard, Count: testblock.SeriesRounds}
		r.Matchers = append(r.Matchers, &storepb.LabelMatcher{Name: tsblock.ShardLabel, Value: shard.String()})
	}
	stream, err := storepb.NewStoreClient(s.conn).Series(context.Background(), r)
	if err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	for messages := 0; ; messages++ {
		_, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && messages > 0:
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("no series")
		case err != nil:
			return fmt.Errorf("read the answer: %w", err)
		}
	}
}

// profile returns the allocations of the process so far.
func (s *storeProcess) profile() (p objectProfile, err error) {
	if err := json.NewEncoder(s.stdin).Encode(true); err != nil {
		return p, fmt.Errorf("ask for a profile: %w", err)
	}
	if err := s.out.Decode(&p); err != nil {
		return p, fmt.Errorf("read a profile: %w", err)
	}
	return p, nil
}
