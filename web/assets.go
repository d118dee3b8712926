package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed assets
var assetFiles embed.FS

// An asset is a file of the pages. Its name contains a hash of its content, so browsers may cache it forever.
type asset struct {
	path string // URL path
	kind string // media type
	body []byte
}

// assets returns all assets by file name.
var assets = sync.OnceValue(func() map[string]asset { //nolint:gochecknoglobals // made once, never changed
	entries, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	all := make(map[string]asset, len(entries))
	for _, e := range entries {
		body, err := assetFiles.ReadFile("assets/" + e.Name())
		if err != nil {
			panic("BUG: " + err.Error())
		}
		sum := sha256.Sum256(body)
		ext := path.Ext(e.Name())
		all[e.Name()] = asset{
			path: "/assets/" + strings.TrimSuffix(e.Name(), ext) + "-" + hex.EncodeToString(sum[:6]) + ext,
			kind: assetKind(ext), body: body,
		}
	}
	return all
})

func assetKind(ext string) string {
	switch ext {
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(ext)
}

// assetPath returns the URL path of a file.
func assetPath(name string) string {
	a, ok := assets()[name]
	if !ok {
		panic("BUG: there is no asset " + name)
	}
	return a.path
}

// serveAsset serves /assets/. The old name of a changed file is not found: its page has changed too.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	for _, a := range assets() {
		if a.path != r.URL.Path {
			continue
		}
		w.Header().Set("Content-Type", a.kind)
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		_, _ = w.Write(a.body) // a failed write means that the client disconnected
		return
	}
	http.NotFound(w, r)
}
