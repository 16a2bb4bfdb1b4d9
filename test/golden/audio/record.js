// Half a second of 330 Hz as Chromium records it, and what Chromium itself makes of that. In the console of a page that was clicked on;
// the JSON it prints is `recorded` of golden.json, but for `bytes`, which are recorded.webm. With audio/mp4 for audio/webm they are
// recorded.mp4, of which `recordedMp4` has every 29th sample.

const context = new AudioContext({ sampleRate: 48000 })
await context.resume()
const tone = context.createOscillator()
tone.frequency.value = 330
const gain = context.createGain()
gain.gain.value = 0.4
const stream = context.createMediaStreamDestination()
stream.channelCount = 1
tone.connect(gain).connect(stream)
tone.start()
const recorder = new MediaRecorder(stream.stream, {
  mimeType: "audio/webm;codecs=opus",
  audioBitsPerSecond: 16000,
})
const pieces = []
recorder.ondataavailable = ({ data }) => pieces.push(data)
const stopped = new Promise((resolve) => (recorder.onstop = resolve))
recorder.start()
await new Promise((resolve) => setTimeout(resolve, 700))
recorder.stop()
await stopped
const bytes = new Uint8Array(await new Blob(pieces).arrayBuffer())
const sound = await new OfflineAudioContext(1, 1, 48000).decodeAudioData(bytes.slice().buffer)
const s16 = Int16Array.from(sound.getChannelData(0), (sample) => Math.round(sample * 32767))
const text = (array) => btoa(String.fromCharCode(...new Uint8Array(array.buffer)))
console.log(JSON.stringify({ by: navigator.userAgent, rate: sound.sampleRate, samples: sound.length, s16: text(s16), bytes: text(bytes) }))
