package blocksync

import (
	"context"
	"strings"
)

// thanosLayout is a bucket that Thanos' components write: blocks at the top, whose meta.json has
// a thanos section, with marks beside it.
//
// The whole bucket is listed at each sync: a page of a listing has a thousand names, so that
// marks and files of all blocks cost far fewer requests than asking for the mark of each block.
type thanosLayout struct {
	oneTenant
	bucket lister
}

var _ arrangement = thanosLayout{}

func (t thanosLayout) list(ctx context.Context, _ string) (listing, error) {
	var l listing
	err := t.bucket.list(ctx, "", true, func() { l = newListing() }, func(name string) {
		dir, file, nested := strings.Cut(name, "/")
		id, ok := parseBlockID(dir)
		switch {
		case ok && nested:
			f := l.block(id)
			f.saw |= sawFiles
			f.file(file)
		case dir == "debug" && nested: // Thanos' compactor keeps copies of meta.json there
		default:
			l.stranger(name)
		}
	})
	return l, err
}
