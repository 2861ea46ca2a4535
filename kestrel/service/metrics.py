"""Every metric of the service: names, labels and buckets, in this one module.

Conventions: prefix `tts_`, base units, a bucket edge on each service-level objective (first audio 0.2 and 0.5 s, RTF
1), labels that say *which*, never *who*, and only from fixed sets. Usage counters and RTF count successes alone, so
that failed requests do not bend them. Each application has its own registry; nothing is global.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.process_collector import ProcessCollector

from kestrel.engine import ModelInfo, Result
from kestrel.service.jobs.state import STATUSES, Status
from kestrel.service.record import RequestRecord, SpeechRecord

PHASES = (
    "queue",
    "text",
    "prefill",
    "falcon_step",
    "sample",
    "fast_graph",
    "codec_build",
    "codec_compute",
    "encode",
    "send_wait",
)
AR_PHASES = ("prefill", "falcon_step", "sample", "fast_graph")
CODEC_PHASES = ("codec_build", "codec_compute")
GUARDS = {"length": "frame_budget", "repetition": "repetition", "silence": "silence", "context": "context"}
JOB_OUTCOMES = ("completed", "failed", "deleted", "expired")
CONTINUOUS_THRESHOLDS = (0.0, 0.1, 0.5)

LATENCY_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300)
DURATION_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
PHASE_BUCKETS = (1e-4, 5e-4, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120)
RTF_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.25, 1.5, 2, 5, 10)


class Metrics:
    """The metrics of one application."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "tts_requests_total", "Requests by how they ended.", ["endpoint", "outcome"], registry=registry
        )
        self.request_duration = Histogram(
            "tts_request_duration_seconds", "Arrival of a request to the end of its reply.", ["endpoint", "stream"],
            buckets=DURATION_BUCKETS, registry=registry,
        )  # fmt: skip
        self.first_audio = Histogram(
            "tts_time_to_first_audio_seconds", "Arrival of a streamed request to its first audio bytes on the socket.",
            ["model"], buckets=LATENCY_BUCKETS, registry=registry,
        )  # fmt: skip
        self.phase_duration = Histogram(
            "tts_phase_duration_seconds", "Time a request spent in each phase, summed over its pieces.", ["phase"],
            buckets=PHASE_BUCKETS, registry=registry,
        )  # fmt: skip
        self.engine_duration = Histogram(
            "tts_engine_duration_seconds", "Submission of a request's pieces to the engine until their results.",
            ["model"], buckets=DURATION_BUCKETS, registry=registry,
        )  # fmt: skip
        self.rtf = Histogram(
            "tts_real_time_factor", "Wall seconds per audio second of a finished request.", ["model", "phase"],
            buckets=RTF_BUCKETS, registry=registry,
        )  # fmt: skip
        self.audio_seconds = Counter(
            "tts_audio_seconds_total", "Audio of finished requests.", ["model"], registry=registry
        )
        self.characters = Counter(
            "tts_characters_total", "Text characters of finished requests.", ["model"], registry=registry
        )
        self.frames = Counter("tts_frames_total", "Codec frames of finished requests.", ["model"], registry=registry)
        self.underrun = Histogram(
            "tts_stream_underrun_seconds", "Gaps that a player without pre-buffer hears in a stream, summed.",
            buckets=LATENCY_BUCKETS, registry=registry,
        )  # fmt: skip
        self.continuous = Counter(
            "tts_stream_continuous_total", "Streams whose gaps sum up to at most `threshold` seconds.", ["threshold"],
            registry=registry,
        )  # fmt: skip
        self.queue_depth = Gauge("tts_queue_depth", "Requests that wait for a slot.", registry=registry)
        self.inflight = Gauge("tts_inflight", "Requests that hold a slot.", registry=registry)
        self.sessions = Gauge("tts_websocket_sessions", "Open WebSocket sessions.", registry=registry)
        self.queue_wait = Histogram(
            "tts_queue_wait_seconds", "Wait of a request for its slot.", buckets=LATENCY_BUCKETS, registry=registry
        )
        self.rejected = Counter(
            "tts_rejected_total", "Requests refused for lack of capacity.", ["reason"], registry=registry
        )
        self.cancel_latency = Histogram(
            "tts_cancel_latency_seconds", "Cancellation of a running request to its slot being free.", ["cause"],
            buckets=PHASE_BUCKETS, registry=registry,
        )  # fmt: skip
        self.guards = Counter(
            "tts_generation_guard_total", "Requests ended by a guard instead of the model.", ["guard"],
            registry=registry,
        )  # fmt: skip
        self.engine_busy = Counter(
            "tts_engine_busy_seconds_total", "Time the engine spent computing, over all requests.", registry=registry
        )
        self.model_loaded = Gauge("tts_model_loaded", "1 once the model can speak.", ["model"], registry=registry)
        self.model_memory = Gauge(
            "tts_model_memory_bytes", "Memory of the model.", ["model", "kind"], registry=registry
        )
        self.jobs = Gauge("tts_jobs", "Stored jobs by status.", ["status"], registry=registry)
        self.jobs_bytes = Gauge(
            "tts_jobs_disk_bytes", "Bytes that count against the disk limit of jobs.", registry=registry
        )
        self.jobs_ended = Counter(
            "tts_jobs_ended_total", "Jobs by how they ended or were removed.", ["outcome"], registry=registry
        )
        self.jobs_resumed = Counter(
            "tts_jobs_resumed_total", "Unfinished jobs found at start, which go on.", registry=registry
        )
        self.job_sentences = Counter(
            "tts_job_sentences_total", "Sentences spoken for jobs.", ["model"], registry=registry
        )
        self.job_audio_seconds = Counter(
            "tts_job_audio_seconds_total", "Audio made for jobs.", ["model"], registry=registry
        )
        self.build = Info("tts_build", "Versions and build facts.", registry=registry)
        for phase in PHASES:
            self.phase_duration.labels(phase)
        for guard in GUARDS.values():
            self.guards.labels(guard)
        for outcome in JOB_OUTCOMES:
            self.jobs_ended.labels(outcome)

    def watch_queue(self, waiting: Callable[[], float], running: Callable[[], float]) -> None:
        """Reads the queue gauges from the given functions at scrape time."""
        self.queue_depth.set_function(waiting)
        self.inflight.set_function(running)

    def watch_jobs(self, jobs: Callable[[Status], float], size: Callable[[], float]) -> None:
        """Reads the job gauges from the given functions at scrape time."""
        for status in STATUSES:
            self.jobs.labels(status).set_function(partial(jobs, status))
        self.jobs_bytes.set_function(size)

    def job_ended(self, outcome: str) -> None:
        """Counts a job: one of JOB_OUTCOMES."""
        self.jobs_ended.labels(outcome).inc()

    def job_sentence(self, model: str, result: Result) -> None:
        """Counts a sentence spoken for a job."""
        self.job_sentences.labels(model).inc()
        self.job_audio_seconds.labels(model).inc(result.audio_seconds)
        phases = result.phases
        self.engine_busy.inc(sum(phases[name].seconds for name in AR_PHASES + CODEC_PHASES if name in phases))
        if result.finish_reason in GUARDS:
            self.guards.labels(GUARDS[result.finish_reason]).inc()

    def loaded(self, info: ModelInfo, version: str) -> None:
        """A model is ready."""
        self.model_loaded.labels(info.name).set(1)
        self.model_memory.labels(info.name, "weights").set(info.weight_bytes)
        self.model_memory.labels(info.name, "state").set(info.state_bytes)
        self.build.info({"version": version, "model": info.name, "backend": info.backend})

    def ended(self, record: RequestRecord) -> None:
        """Counts a request that has ended, in whichever way."""
        self.requests.labels(record.endpoint, record.outcome).inc()
        speech = record.speech
        stream = "true" if speech is not None and speech.stream else "false"
        self.request_duration.labels(record.endpoint, stream).observe(record.seconds)
        if record.outcome == "rejected":
            self.rejected.labels(record.error_code or "other").inc()
        if speech is not None:
            self._spoken(speech, finished=record.outcome in ("ok", "truncated"))

    def _spoken(self, speech: SpeechRecord, *, finished: bool) -> None:
        totals, model = speech.totals, speech.model
        self.engine_busy.inc(sum(totals.phases.get(phase, 0.0) for phase in AR_PHASES + CODEC_PHASES))
        if speech.cancelled and speech.cancel_seconds is not None:
            self.cancel_latency.labels(speech.cancelled).observe(speech.cancel_seconds)
        if not finished:
            return
        for phase in PHASES:
            self.phase_duration.labels(phase).observe(speech.phases.get(phase, 0.0))
        self.queue_wait.observe(speech.queue_seconds)
        self.engine_duration.labels(model).observe(totals.wall_seconds)
        self.audio_seconds.labels(model).inc(totals.audio_seconds)
        self.characters.labels(model).inc(speech.characters)
        self.frames.labels(model).inc(totals.frames)
        if totals.finish_reason in GUARDS:
            self.guards.labels(GUARDS[totals.finish_reason]).inc()
        if speech.rtf is not None:
            self.rtf.labels(model, "total").observe(speech.rtf)
            for name, phases in (("ar", AR_PHASES), ("codec", CODEC_PHASES)):
                seconds = sum(totals.phases.get(phase, 0.0) for phase in phases)
                self.rtf.labels(model, name).observe(seconds / totals.audio_seconds)
        if speech.stream:
            if speech.first_audio_seconds is not None:
                self.first_audio.labels(model).observe(speech.first_audio_seconds)
            self.underrun.observe(speech.underrun_seconds)
            for threshold in CONTINUOUS_THRESHOLDS:
                if speech.underrun_seconds <= threshold:
                    self.continuous.labels(str(threshold)).inc()
