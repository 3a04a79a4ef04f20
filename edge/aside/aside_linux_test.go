package aside_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"waypost/edge/aside"
)

// on gives how the system treats the thread of a goroutine that has done something.
func on(t *testing.T, do func()) *unix.SchedAttr {
	t.Helper()
	var attr *unix.SchedAttr
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with it
		do()
		attr, err = unix.SchedGetAttr(0, 0)
	}()
	<-done
	require.NoError(t, err)
	return attr
}

func TestAThreadStandsAsideAndNoOtherDoes(t *testing.T) {
	before := on(t, func() {})
	lowered := on(t, aside.Thread)
	require.EqualValues(t, unix.SCHED_BATCH, lowered.Policy)
	require.EqualValues(t, max(before.Nice, 5), lowered.Nice)
	for range 20 {
		require.Equal(t, before, on(t, func() {}))
	}
}

func TestWhatAnOperatorHasLoweredFurtherStaysSo(t *testing.T) {
	nice := on(t, func() {
		require.NoError(t, unix.Setpriority(unix.PRIO_PROCESS, 0, 15))
		aside.Thread()
	})
	require.EqualValues(t, 15, nice.Nice)
	idle := on(t, func() {
		require.NoError(t, unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_IDLE}, 0))
		aside.Thread()
	})
	require.EqualValues(t, unix.SCHED_IDLE, idle.Policy)
}

func TestThereIsRoomUnlessAnOperatorSaysHowMuch(t *testing.T) {
	t.Setenv("GOMAXPROCS", "7")
	before := runtime.GOMAXPROCS(0)
	aside.MakeRoom(3)()
	require.Equal(t, before, runtime.GOMAXPROCS(0))

	t.Setenv("GOMAXPROCS", "")
	t.Cleanup(aside.Linger(time.Hour)) // a machine may stand still
	runtime.SetDefaultGOMAXPROCS()
	before = runtime.GOMAXPROCS(0)
	room := func(threads int) int { return before + aside.Besides(before) + threads }
	one, another := aside.MakeRoom(3), aside.MakeRoom(1)
	require.Equal(t, room(4), runtime.GOMAXPROCS(0))
	one()
	require.Equal(t, room(4), runtime.GOMAXPROCS(0), "another has not ended")
	another()
	require.Equal(t, room(4), runtime.GOMAXPROCS(0), "for a while")
	again := aside.MakeRoom(2)
	require.Equal(t, room(4), runtime.GOMAXPROCS(0), "which is enough for the next")
	again()
	aside.TakeBack()
	require.Equal(t, before, runtime.GOMAXPROCS(0))
	aside.MakeRoom(1)()
	require.Equal(t, room(1), runtime.GOMAXPROCS(0))
	aside.TakeBack()
}

func TestShortWorkHasRoomOnAFewProcessorsAndTakesNoneFromOthers(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	t.Cleanup(aside.Linger(time.Hour)) // a machine may stand still
	runtime.SetDefaultGOMAXPROCS()
	before := runtime.GOMAXPROCS(0)
	short := before
	if runtime.NumCPU() <= aside.Few {
		short += aside.Besides(before)
	}
	one, another := aside.Briefly(), aside.Briefly()
	require.Eventually(t, func() bool { return runtime.GOMAXPROCS(0) == short }, 60*time.Second, time.Millisecond, "when it can be made")
	require.Equal(t, before, aside.Processors())
	one()
	aside.TakeBack()
	require.Equal(t, short, runtime.GOMAXPROCS(0), "another has not ended")
	another()
	require.Equal(t, short, runtime.GOMAXPROCS(0), "for a while")
	aside.TakeBack()
	require.Equal(t, before, runtime.GOMAXPROCS(0))

	long := before + aside.Besides(before) + 2
	giveBack, brief := aside.MakeRoom(2), aside.Briefly()
	require.Equal(t, long, runtime.GOMAXPROCS(0))
	brief()
	aside.TakeBack()
	require.Equal(t, long, runtime.GOMAXPROCS(0), "what is long has not ended")
	brief = aside.Briefly()
	giveBack()
	aside.TakeBack()
	require.Equal(t, long, runtime.GOMAXPROCS(0), "what is short has not ended")
	brief()
	aside.TakeBack()
	require.Equal(t, before, runtime.GOMAXPROCS(0))
}

func TestRoomForWhatIsLongStaysForItsTimeAlsoWhenShortWorkEndsLater(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	t.Cleanup(aside.Linger(time.Hour)) // a machine may stand still
	runtime.SetDefaultGOMAXPROCS()
	before := runtime.GOMAXPROCS(0)
	aside.MakeRoom(2)()
	t.Cleanup(aside.TakeBack)
	t.Cleanup(aside.LingerBriefly(0))
	aside.Briefly()()
	aside.TakeBackWhatIsOver()
	require.Equal(t, before+aside.Besides(before)+2, runtime.GOMAXPROCS(0))
}

func TestThereIsNoMoreRoomThanAQuotaAndALargeMachineAllow(t *testing.T) {
	require.Equal(t, min(6*runtime.NumCPU(), 8), aside.Besides(runtime.NumCPU()))
	require.Equal(t, 8, aside.Besides(runtime.NumCPU()+64))
	require.Zero(t, aside.Besides(runtime.NumCPU()-1))
}

func TestAWorkerStandsAsideAndDoesOneThingAfterTheOther(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	t.Cleanup(aside.Linger(time.Hour)) // a machine may stand still
	runtime.SetDefaultGOMAXPROCS()
	before := runtime.GOMAXPROCS(0)
	var w aside.Worker
	attr := func() (attr *unix.SchedAttr) {
		var err error
		w.Do(func() { attr, err = unix.SchedGetAttr(0, 0) })
		require.NoError(t, err)
		return attr
	}
	require.EqualValues(t, unix.SCHED_BATCH, attr().Policy)
	require.Equal(t, before+aside.Besides(before)+1, runtime.GOMAXPROCS(0))

	done := 0 // which the race detector watches
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { w.Do(func() { done++ }) })
	}
	all.Wait()
	require.Equal(t, 20, done)

	w.Rest()
	aside.TakeBack()
	require.Equal(t, before, runtime.GOMAXPROCS(0), "it has ended")
	require.EqualValues(t, unix.SCHED_BATCH, attr().Policy, "and comes again")

	w.Close()
	w.Close()
	aside.TakeBack()
	require.Equal(t, before, runtime.GOMAXPROCS(0))
	require.NotEqualValues(t, unix.SCHED_BATCH, attr().Policy, "who is late has it done by himself")
}
