// Package bucketurl parses the URL of a directory or S3 bucket, without secrets in it, and opens the bucket.
package bucketurl
