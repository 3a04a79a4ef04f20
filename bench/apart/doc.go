// Package apart gives the server that is measured, and those who ask it, processors of their own. How long an
// answer takes is then the server's doing alone: on shared ones a client that is put off for some milliseconds, or
// puts the server off, is measured with it. It runs on Linux, and
// does nothing on a machine with one processor.
package apart
