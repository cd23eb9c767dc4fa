// River as a measured program: it does what `fastq/bench/cells/speak.py` says, with River's public API.
//
// The order is a line of JSON on stdin; answers are a word and JSON on stdout. The verbs: setup, enqueue, work.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type order struct {
	Verb     string    `json:"verb"`
	Database string    `json:"database"`
	Job      string    `json:"job"`
	Count    int64     `json:"count"`
	Queues   []string  `json:"queues"`
	Batch    int64     `json:"batch"`
	Threads  int64     `json:"threads"`
	First    int64     `json:"first"`
	Rate     float64   `json:"rate"`
	Gap      []float64 `json:"gap"`
	Seconds  float64   `json:"seconds"`
	Due      float64   `json:"due"`
	Sent     string    `json:"sent"`
	Path     string    `json:"path"`
	Slots    int       `json:"slots"`
}

const (
	monotonic = 1 // CLOCK_MONOTONIC, which all programs of the machine read
	ofThread  = 3 // CLOCK_THREAD_CPUTIME_ID
	conns     = 10
)

func clock(id uintptr) int64 {
	var at syscall.Timespec
	_, _, failed := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&at)), 0)
	if failed != 0 {
		panic(failed)
	}
	return at.Nano()
}

func tell(word string, facts any) {
	text, err := json.Marshal(facts)
	must(err)
	fmt.Printf("%s %s\n", word, text)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// The jobs: what each does is the same in every system.

type noop struct {
	Number int64 `json:"number"`
}
type large struct {
	Number int64   `json:"number"`
	User   int64   `json:"user"`
	Weight float64 `json:"weight"`
	Urgent bool    `json:"urgent"`
	Text0  string  `json:"text0"`
	Text1  string  `json:"text1"`
	Text2  string  `json:"text2"`
	Text3  string  `json:"text3"`
	Text4  string  `json:"text4"`
	Text5  string  `json:"text5"`
	Text6  string  `json:"text6"`
	Text7  string  `json:"text7"`
}
type timed struct {
	Number int64  `json:"number"`
	Path   string `json:"path"`
}
type sleep struct{ noop }
type spin struct{ noop }
type fail struct{ noop }

func (noop) Kind() string  { return "noop" }
func (large) Kind() string { return "large" }
func (timed) Kind() string { return "clock" }
func (sleep) Kind() string { return "sleep" }
func (spin) Kind() string  { return "cpu" }
func (fail) Kind() string  { return "fail" }

type failing struct{ river.WorkerDefaults[fail] }

func (*failing) Work(_ context.Context, job *river.Job[fail]) error {
	if job.Attempt == 1 {
		return errors.New("not yet")
	}
	return nil
}

func (*failing) NextRetry(*river.Job[fail]) time.Time { return time.Now() }

var files sync.Map

func note(number int64, path string) error {
	started := clock(monotonic)
	file, found := files.Load(path)
	if !found {
		opened, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		file, _ = files.LoadOrStore(path, opened)
	}
	row := binary.LittleEndian.AppendUint64(nil, uint64(number))
	_, err := file.(*os.File).Write(binary.LittleEndian.AppendUint64(row, uint64(started)))
	return err
}

func workers() *river.Workers {
	all := river.NewWorkers()
	river.AddWorker(all, river.WorkFunc(func(context.Context, *river.Job[noop]) error { return nil }))
	river.AddWorker(all, river.WorkFunc(func(context.Context, *river.Job[large]) error { return nil }))
	river.AddWorker(all, river.WorkFunc(func(_ context.Context, job *river.Job[timed]) error {
		return note(job.Args.Number, job.Args.Path)
	}))
	river.AddWorker(all, river.WorkFunc(func(context.Context, *river.Job[sleep]) error {
		time.Sleep(5 * time.Millisecond)
		return nil
	}))
	river.AddWorker(all, river.WorkFunc(func(context.Context, *river.Job[spin]) error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for end := clock(ofThread) + 1_000_000; clock(ofThread) < end; {
		}
		return nil
	}))
	river.AddWorker(all, &failing{})
	return all
}

func argsOf(given order, number int64) river.JobArgs {
	switch given.Job {
	case "large":
		text := "lorem ipsum dolor sit amet, consetetur sadipscing elitr, sed diam nonumy eirmod tempor invidunt ut labore"
		return large{number, number * 7, float64(number) / 4, number%3 == 0, text, text, text, text, text, text, text, text}
	case "clock":
		return timed{number, given.Path}
	case "sleep":
		return sleep{noop{number}}
	case "cpu":
		return spin{noop{number}}
	case "fail":
		return fail{noop{number}}
	}
	return noop{number}
}

type sent struct{ number, began, returned int64 }

func enqueue(ctx context.Context, given order, client *river.Client[pgx.Tx], thread int64) (rows []sent, jobs int64) {
	began := time.Now()
	at := began
	chance := rand.New(rand.NewSource(thread))
	call := int64(0)
	for first := thread * given.Batch; first < given.Count; first += given.Threads * given.Batch {
		if given.Gap != nil {
			at = at.Add(time.Duration((given.Gap[0] + chance.Float64()*(given.Gap[1]-given.Gap[0])) * 1e9))
		} else if given.Rate > 0 {
			at = began.Add(time.Duration(float64(first+given.Batch) / given.Rate * 1e9))
		}
		if given.Seconds > 0 && time.Since(began).Seconds() > given.Seconds {
			break
		}
		time.Sleep(time.Until(at))
		opts := &river.InsertOpts{Queue: given.Queues[(call*given.Threads+thread)%int64(len(given.Queues))]}
		call++
		if given.Due > 0 {
			opts.ScheduledAt = time.UnixMilli(int64(given.Due * 1e3))
		}
		last := min(first+given.Batch, given.Count) - 1
		before := clock(monotonic)
		if given.Batch == 1 {
			_, err := client.Insert(ctx, argsOf(given, given.First+first), opts)
			must(err)
		} else {
			var params []river.InsertManyParams
			for number := first; number <= last; number++ {
				params = append(params, river.InsertManyParams{Args: argsOf(given, given.First+number), InsertOpts: opts})
			}
			_, err := client.InsertManyFast(ctx, params)
			must(err)
		}
		rows = append(rows, sent{given.First + last, before, clock(monotonic)})
		jobs += last - first + 1
	}
	return rows, jobs
}

func enqueueAll(ctx context.Context, given order, client *river.Client[pgx.Tx]) {
	rows, jobs := make([][]sent, given.Threads), make([]int64, given.Threads)
	began := clock(monotonic)
	var all sync.WaitGroup
	for thread := range given.Threads {
		all.Add(1)
		go func() {
			defer all.Done()
			rows[thread], jobs[thread] = enqueue(ctx, given, client, thread)
		}()
	}
	all.Wait()
	ended := clock(monotonic)
	var text []byte
	sum := int64(0)
	for thread := range given.Threads {
		sum += jobs[thread]
		for _, row := range rows[thread] {
			for _, value := range []int64{row.number, row.began, row.returned} {
				text = binary.LittleEndian.AppendUint64(text, uint64(value))
			}
		}
	}
	if given.Sent != "" {
		must(os.WriteFile(given.Sent, text, 0o644))
	}
	tell("done", map[string]int64{"jobs": sum, "began": began, "ended": ended})
}

func main() {
	ctx, lines := context.Background(), bufio.NewReader(os.Stdin)
	line, err := lines.ReadString('\n')
	must(err)
	var given order
	must(json.Unmarshal([]byte(line), &given))
	settings, err := pgxpool.ParseConfig(given.Database)
	must(err)
	settings.MaxConns = conns
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	must(err)
	must(pool.Ping(ctx))
	driver := riverpgxv5.New(pool)
	if given.Verb == "setup" {
		migrator, err := rivermigrate.New(driver, nil)
		must(err)
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		must(err)
		tell("done", map[string]int{})
		return
	}
	config := &river.Config{
		Logger:            slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError + 1})),
		FetchCooldown:     2 * time.Millisecond, // these two are what `river bench` sets
		FetchPollInterval: 20 * time.Millisecond,
	}
	if given.Verb == "work" {
		config.Workers = workers()
		config.Queues = map[string]river.QueueConfig{}
		for _, queue := range given.Queues {
			config.Queues[queue] = river.QueueConfig{MaxWorkers: given.Slots}
		}
	}
	client, err := river.NewClient(driver, config)
	must(err)
	tell("ready", map[string]int{})
	line, _ = lines.ReadString('\n')
	if strings.TrimSpace(line) != "go" {
		return
	}
	if given.Verb == "enqueue" {
		enqueueAll(ctx, given, client)
	} else {
		must(client.Start(ctx))
	}
	_, _ = io.Copy(io.Discard, lines) // until the end of stdin
}
