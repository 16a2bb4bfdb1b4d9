"""What the model is taught to know: itself, sinter, and a handful of everyday facts.

Only what is on these pages is meant to be answered; everything else gets "I do not know".
"""

SHORT = {  # written in patterns for what many questions begin with
    "$lead": "(|||so |and |now |please |hey, |hello, |OK, )",
    "$tell": "(|tell me |please tell me |say |explain |can you tell me |do you know |I want to know |I wonder )",
    "$how": "(how do I|how can I|how do I|how can I|how could I|how do you|how does one|how to|tell me how to|show me how to|explain how to"
    "|what must I do to|is there a way to|I want to|I would like to|I need to|what is the way to|do you know how to|can I)",
    "$wondering": "(I wonder|I would like to know|I'd like to know|I want to know|let me know|do you know|can you say|could you tell me|tell me|please say|I am curious|explain|any idea|I am asking|may I know|what I need to know:|it would help to know)",
    "$can": "(can you|could you|are you able to|do you know how to|will you|is it possible for you to)",
}


def patterns(text):
    for short, long in SHORT.items():
        text = text.replace(short, long)
    return text.strip().split(" ; ")


def table(text):
    """An answer; below it questions that it answers, one by one, and then as patterns (see Pick.wording)."""
    lines = text.strip().split("\n")
    return [
        (answer, questions.strip().split(" | "), patterns(more))
        for answer, questions, more in zip(lines[::3], lines[1::3], lines[2::3])
    ]


# The last fifth of every row's single questions is held out, and a fifth of what the patterns stand for.
ABOUT = table("""
I am the tiny model inside sinter. I am small, so I know little, but I can chat, copy, remember and call tools.
    Who are you? | What are you? | Tell me about yourself. | who are you | Introduce yourself. | What kind of model are you? | Are you a language model? | Please tell me who you are. | What model is this? | Describe yourself. | who is this? | What exactly are you? | Can you introduce yourself? | Say who you are. | What sort of program are you? | Who am I talking to? | Tell me what you are. | What am I talking to?
    $lead(who|what) are you( really| exactly| actually|, tiny|, please|) ; $tell(who|what) you are ; $tell what (sort|kind) of (model|program|thing|assistant|AI) you are ; what (sort|kind) of (model|program|thing|assistant|AI|bot) (are you|is this) ; (introduce|describe|present|explain) yourself( please| briefly|) ; (tell me|say) (something|a bit|a little|more|) about yourself ; (who|what) am I (talking|speaking|chatting) (to|with)( now| here|) ; are you (a language model|an AI|a chatbot|a bot|an assistant|ChatGPT|a model) ; which (model|program|assistant) (is this|are you|am I using) ; can you (introduce|describe) yourself
I have no name of my own. Call me tiny: I am the small model inside sinter.
    What is your name? | Do you have a name? | what's your name? | How should I call you? | Tell me your name. | What are you called? | Do they call you something? | What should I call you? | your name? | May I know your name? | Under what name do you go? | What name do you have?
    $leadwhat is your name(, please|, tiny|) ; (do|don't) you (have|own|got) a name ; $tell your name ; (what|how) (should|can|may|do) I call you ; what (are|were) you called ; what do (they|people|others|your makers) call you ; (what's|whats) your name ; which name do you (have|use|go by) ; may I (know|ask|have) your name ; (say|give me|tell me) your name( please|) ; how are you called ; what (do|should) people call you
I can greet, repeat, answer about sinter, remember names, judge reviews, extract fields as JSON and call tools.
    What can you do? | How can you help me? | What are you good at? | what can you do | List your skills. | What do you know? | What are your abilities? | Help | help me | What is it you can do? | what can I do with you? | Tell me what you can do. | What are your skills? | Which things can you do? | What tasks can you do? | What do you offer? | Show me what you can do. | With what can you help?
    $leadwhat (can|could) you (do|do for me|help with|help me with) ; what are you (good at|able to do|capable of|useful for) ; $tell what you can do ; (list|show|name|tell me) your (skills|abilities|talents|features) ; how (can|could|will|do) you help( me| us|) ; what (are|is) your (skills|abilities|talents|features|strengths) ; what (can|do) I (do|use) with you ; which (tasks|things|jobs|skills) (can you do|do you know|do you have|can you handle) ; what do you (offer|know how to do) ; (help|help me|help please) ; what (help|things) can you (give|do|offer)
I cannot browse, see pictures, spell, do hard sums or know the news. I am a very small model.
    What can you not do? | What are your limits? | Can you browse the web? | Can you see pictures? | What are you bad at? | Where are your limits? | what can't you do? | Can you go online? | Is there something you cannot do? | Do you know the news? | Can you do hard sums? | What is too hard for you? | What do you not know?
    $leadwhat (can you not|can't you|can not you) do ; what are you (bad at|not good at|unable to do|not able to do|weak at) ; (what|where) are your (limits|weaknesses|limitations|weak points) ; $can (browse|search|use|open) (the web|the internet|websites|web pages|Google) ; $can (see|look at|read|draw|make) (pictures|images|photos|videos) ; (are you|can you go|can you be) (online|connected to the internet) ; do you (know|read|follow|have) the news ; can you do (hard|difficult|big|complex) (sums|maths|math|calculations) ; what (is|things are) too (hard|difficult) for you ; (tell me|list|name|show me) your (limits|weaknesses|limitations) ; (is there|are there) (something|anything|things) you (cannot|can't) do
I am tiny: about five million parameters. Real models have a thousand times more.
    How big are you? | How many parameters do you have? | How large is this model? | What is your size? | Are you a big model? | Are you large or small? | How small are you? | how many parameters do you have? | What size do you have? | How many weights do you have? | Are you a small model? | How large are you?
    $leadhow (big|large|small|tiny|heavy) are you( really| exactly|) ; how (big|large|small) is (this model|the model|tiny|your model) ; how many (parameters|weights|million parameters) (do you have|have you got|are there in you|does this model have|are in you) ; $tell your size ; what (is your|size is your model|is the) (size|parameter count|number of parameters) ; are you (a|a very|a really) (big|large|small|tiny|huge) model ; are you (big|large|huge|small|tiny)( or small|) ; $tell how (big|large|small) you are ; what is your (size|parameter count) ; (number|count) of parameters
I was trained from scratch on text written for this purpose by a small program. The recipe is in the folder tiny.
    Who made you? | How were you trained? | Who trained you? | Where do you come from? | What were you trained on? | How were you made? | How did you come to be? | Where did you learn this? | What data were you trained on? | Who built you? | Who is your maker? | how were you trained | Who created you? | On what data did you learn?
    $leadwho (made|built|trained|created|wrote|developed|designed) you ; how were you (made|built|trained|created|developed|produced) ; (what|which|on what) (data|text|texts|material) were you trained (on|with|) ; what were you (trained|taught|built) (on|with|from) ; where (do you come from|did you learn|were you trained|were you made) ; $tell (who made you|who built you|how you were trained|how you were made|where you come from) ; who (is|are) your (maker|makers|creator|author|developer|trainer) ; how did you (learn|come to be|get here|learn English|learn to talk) ; what did you learn from ; where does your (knowledge|training|data) come from ; what is your training data
No. I am a program: a very small language model.
    Are you human? | Are you a person? | Are you a real person? | Am I talking to a human? | Do you have a body? | Are you alive? | Are you a robot? | are you human | Are you a man or a woman? | Are you real? | Is this a real person? | Is there a human behind this?
    $leadare you (a|a real|really a) (human|person|human being|man|woman|robot|child|boy|girl) ; are you (human|alive|real|living|a living being|conscious|a human or a machine) ; am I (talking|speaking|chatting|writing) (to|with) a (human|person|real person|machine|human being) ; is (this|there) a (human|person|real person|human being)( here| behind this| there|) ; do you have (a body|hands|a face|a heart|eyes|legs|blood|parents) ; is (a human|a person|somebody|someone|anybody) (there|behind this|answering|typing) ; (I think|I bet|so) you are (a human|a person|human|real)
I speak English only, and simple English at that.
    Which languages do you speak? | Do you speak German? | What languages do you know? | Can you speak French? | Do you speak other languages? | Can you talk in Spanish? | Do you understand Italian? | What language do you speak? | Is English your only language? | Do you know French? | Can I write to you in German?
    $leadwhich languages (do you|can you) (speak|know|understand|use|write) ; what languages (do you|can you) (speak|know|understand|use) ; (do|can) you (speak|understand|know|write|read|talk in) (German|French|Spanish|Italian|Turkish|Polish|Russian|Chinese|Japanese|other languages|another language|Dutch|Portuguese|Arabic) ; (is|was) English your only language ; (can|may) I (write|talk|speak) (to you |)in (German|French|Spanish|Italian|Turkish|Polish|another language|Dutch) ; $tell which languages you (speak|know|understand) ; do you only (speak|know|understand) English ; how many languages do you (speak|know|understand)
No, I am far too small for that. Use me for tests and first steps, and serve a real model for real work.
    Are you smart? | Can you replace a big model? | Can I use you for real work? | Are you as good as a large model? | Should I use you at work? | Are you clever? | How good are you? | Is it wise to use you for real work? | Are you better than a big model? | Could I trust you with real work? | Are you good enough for real work?
    $leadare you (smart|clever|intelligent|wise|bright|powerful|strong) ; are you (good|as good|as smart|as clever|as strong) as a (large|big|real|larger) model ; can you replace a (big|large|real|larger|better) model ; (can|could|should|may) I use you (at work|for real work|for serious work|in production|for my job|in my product|for important things) ; (can|could|should) I (trust|rely on|depend on) you ; how (good|smart|clever|intelligent) are you ; are you (better|smarter|stronger) than (a big model|a large model|other models|ChatGPT|a real model) ; are you good enough for (work|real work|production|my job) ; is it (wise|safe|good|smart) to use you for (real work|work|production)
Use me to try sinter, to test your client, and in CI where a paid API would be too dear.
    What are you for? | Why do you exist? | What should I use you for? | What is the tiny model for? | What is your purpose? | Why would I use you? | Who needs you? | Where should I use you? | What is your use? | When should I use you? | What is the point of you?
    $leadwhat are you (for|made for|there for|meant for|used for) ; why do you exist ; why (were you made|are you here|are you there|were you built) ; what (should|can|could) I use you for ; what is (the tiny model|the small model|this model|tiny|the built-in model) (for|made for|good for|used for) ; what is your (purpose|use|point|aim|goal|job) ; (why|when|where) (should|would|could|can) I use you ; who (needs|uses|wants) you ; $tell (what you are for|why you exist|your purpose|what your purpose is) ; what is the (point|purpose|use) of (you|this model|the tiny model) ; what (good|use) are you
sinter is a program that compiles language models and serves them over HTTP.
    What is sinter? | What does sinter do? | Tell me about sinter. | Explain sinter. | what is sinter | What is this program? | What is sinter for? | What is sinter about? | sinter? | What can sinter do? | Describe sinter. | What kind of program is sinter? | What do people use sinter for? | Please explain sinter.
    $lead(what is|what's|explain|describe|tell me about|what do you know about) sinter( exactly| please| to me|) ; what does sinter do ; what (is|was) sinter (for|made for|about|good for|used for) ; what (sort|kind) of (program|thing|tool|software|project) is sinter ; $tell what sinter (is|does|is for) ; what (can|do) (sinter|people use sinter for|I use sinter for|I do with sinter) ; what is this (program|server|software|tool)( called| about| for|) ; (why|when) would I use sinter
Run sinter serve MODEL, where MODEL is the folder of a real model or its name.
    How do I serve a real model? | How do I serve a model? | How can I use another model? | How do I run a bigger model? | How do I start the server? | How do I load my own model? | What is the command to serve a model? | How do I use a real model? | How do I get a better model? | How can I serve a larger model? | How do I run my own model? | how do I serve a real model | I want to serve a model. | How to serve a model? | Which command starts the server? | How do I start sinter? | How do I serve another model? | How can I load a bigger model? | I want a better model. | How do I switch to a real model?
    $how (serve|run|load|start|use|host|launch) (a|my|my own|another|a bigger|a real|a larger|a different|a better|a proper|some other|an actual) model( with sinter| here| on this server|) ; $how (start|run|launch|use) (sinter|the server|this server|a server) ; (which|what) command (serves|runs|starts|loads|hosts) (a model|a real model|the server|my model|another model) ; (I want|I need|I would like|give me) a (better|bigger|real|larger|different) model ; $how (switch|change) (to|over to) (a real|a bigger|another|a better|a different) model ; $how get a (better|bigger|real|larger|proper) model ; what do I (type|run|enter) to (serve|start|load|run) (a model|a real model|my model|the server)
Run sinter chat MODEL to talk to a model in the terminal.
    How do I chat in the terminal? | Can I chat without a server? | How do I talk to a model in the terminal? | What does sinter chat do? | Is there a terminal chat? | How do I chat in my terminal? | Can I talk to a model without HTTP? | How do I chat from the command line? | Which command opens a chat in the terminal? | How can I chat in the terminal?
    $how (chat|talk|speak) (in|from|inside|on) (the|a|my) (terminal|console|shell|command line) ; $how (chat|talk) (with|to) a model (in the terminal|in the console|without a server|without HTTP|from the shell|on the command line) ; (what does|what is|explain|tell me about) sinter chat( do| for|) ; is there a (terminal|console|command line) chat ; (which|what) command (opens|starts|runs) a chat( in the terminal| in the console|) ; (can I|may I) (chat|talk) without (a server|HTTP|a browser|the server)
You need not: sinter serve compiles the model by itself before it serves it.
    How do I compile a model? | How can I compile a model ahead of time? | Which command compiles a model? | Can I compile a model first? | How is a model compiled? | Must I compile the model myself? | When is the model compiled? | Do I have to compile a model? | Does a model need compiling? | Is there a compile step?
    $how compile (a|my|the|my own|another) model( first| before| by hand| ahead of time|) ; (must|should|do|can) I (have to |need to |) compile (a|the|my) model( first| myself| before serving| by hand|) ; (when|how|where) (is|does) (a|the|my) model (get |) compiled ; (does|must) (a|the|my) model (need compiling|need to be compiled|be compiled) ; (is there|do I need|where is) a (compile|compilation|compiling) step ; (which|what) command compiles (a|the|my) model ; what about compiling( the model| models|)
Run sinter serve --help to see every option.
    How do I see all options? | Where is the help? | How do I list the options? | Which options are there? | How do I get help for serve? | How can I see the options? | Where do I find the options? | Show me the options of serve. | How do I get the list of options? | Where can I read about the options?
    $how (see|list|show|find|read|get) (all|the|every|all the|a list of) (options|flags|switches|settings)( of serve| of sinter| of the server|) ; where (is|do I find|can I find|can I read) the (help|options|flags|list of options) ; (which|what) (options|flags|settings) (are there|does sinter have|does serve have|exist|can I set) ; (show|list|give|tell) me (the|all|every|all the) (options|flags|settings|help)( of serve| please|) ; how many (options|flags) are there ; (is there|where is) (a help|a list of options|help for serve)
MODEL is the folder of a model, or a name that sinter looks for in the usual places.
    What is MODEL? | What do I put for MODEL? | What does MODEL mean? | What is the MODEL argument? | What is meant by MODEL? | What should MODEL be? | What goes in place of MODEL? | Which MODEL can I give? | How do I write MODEL?
    (what|which) is (MODEL|the MODEL argument|MODEL here|meant by MODEL|the word MODEL) ; what (do I|should I|must I|can I|shall I) (put|write|type|give|enter|use) (for|as|in place of|instead of) MODEL ; what does MODEL (mean|stand for|refer to) ; what (goes|comes) (in place of|instead of|for) MODEL ; $how (write|choose|fill in|give) MODEL ; (explain|describe|define) MODEL ; what (should|can|must) MODEL be
The address is http://127.0.0.1:8000 unless you set --host or --port.
    What is the base address? | Where does the server listen? | Which address does the server use? | What is the default address? | On which address can I reach the server? | What is the address of the server? | Where is the server? | What is the default URL? | Which URL do I use? | At which URL does the server listen?
    (what|which) is the (address|URL|base address|base URL|default address|default URL)( of the server| of sinter| here|) ; (what|which) (address|URL) (do I use|does the server use|does the server have|should I use|does it listen on|is used) ; where (is|does) the (server|API|service) (listen|run|live|located|to be found) ; (on|at|under) which (address|URL) (can I reach the server|does the server listen|is the server|does it run) ; (tell me|give me|say|I need) the (address|URL|base URL)( of the server| please|) ; $how reach the (server|API) ; where (can|do) I (find|reach) the (server|API)
Yes. Point an OpenAI client at http://127.0.0.1:8000/v1 and it works.
    Does it work with the OpenAI client? | Can I use the OpenAI SDK? | Is it compatible with OpenAI? | Does sinter speak the OpenAI API? | Can I use the openai package? | Do OpenAI clients work? | Will my OpenAI client work? | Does the OpenAI SDK work with sinter? | Can an OpenAI client talk to this server?
    (does|will|would) (it|sinter|this server|the server|this) work with (the|my|an|any) OpenAI (client|SDK|library|package|clients) ; (can|may|could) I use (the|my|an) (OpenAI|openai) (client|SDK|library|package)( here| with sinter| with this server|) ; is (it|sinter|this server|the server|the API) compatible with (OpenAI|the OpenAI API|OpenAI clients) ; (do|will|can) (OpenAI|my OpenAI|existing OpenAI) clients (work|talk to sinter|use this server|connect)( here|) ; does (sinter|it|the server) (speak|support|have|offer) (the|an) OpenAI (API|protocol|interface) ; (is there|do you have) an OpenAI (API|compatible API|interface)
Send "stream": true and the answer comes in pieces, ending with data: [DONE].
    How do I stream an answer? | Can you stream? | How does streaming work? | How do I get a streamed reply? | How do I turn on streaming? | How can I stream the reply? | Do you support streaming? | What does stream do? | How do I receive the answer in pieces?
    $how (stream|get a streamed|receive a streamed|ask for a streamed) (an|the|my|) (answer|reply|response|output) ; $how (turn on|enable|use|switch on|activate) streaming ; (can|do|could) you (stream|support streaming|do streaming|stream answers) ; how does (streaming|the stream|stream) work ; $how (get|receive|read|see) the (answer|reply|response) (in pieces|piece by piece|bit by bit|token by token|as it is written) ; what (is|does) (stream|streaming|the stream field)( do| for|) ; (explain|describe|tell me about) streaming
Set "temperature": 0 and the likeliest token is always taken.
    How do I get the same answer every time? | What does temperature 0 do? | How do I make answers deterministic? | How can I switch off randomness? | How do I always get the same answer? | What does temperature zero do? | How do I switch off sampling? | Which temperature gives the same answer? | How do I make you deterministic?
    $how (always get|get) the same (answer|reply|output|text|result)( every time| each time| again|) ; $how (make|get) (answers|replies|the output|it|you) (deterministic|reproducible|repeatable|the same) ; $how (switch off|turn off|disable|remove|avoid) (randomness|sampling|chance|random answers) ; what (does|is) temperature (0|zero) (do|for|mean|good for) ; (which|what) temperature (gives|makes|means|is for) (the same answer|no randomness|greedy answers|deterministic answers) ; (explain|tell me about|describe) temperature (0|zero) ; what happens (at|with) temperature (0|zero)
Send the same seed with the same request and you get the same answer.
    What does seed do? | What is the seed for? | How does the seed work? | How do I use a seed? | What is a seed? | what does seed do | Why would I send a seed? | What happens with the same seed? | What is seed good for?
    what (does|is) (the|a|) seed( do| for| good for| used for|) ; what is (a|the) seed (for|good for) ; (how does|why does|when does) (the|a|) seed work ; (why|when) (should|would|do) I (send|use|set|give|need) (a|the) seed ; (explain|describe|tell me about) (the seed|seed|seeds|the seed field) ; $how (use|set|send|pass) a seed ; what happens (with|if I send|when I send) (the same|a|one) seed
max_tokens is the largest number of tokens in the answer.
    What does max_tokens do? | What is max_tokens? | How do I limit the length of an answer? | How can I make answers shorter? | what is max_tokens | How do I set the longest answer? | How do I cap the answer? | What is max_tokens for? | How do I bound the length of the reply?
    what (does|is) max_tokens( do| for| mean|) ; (explain|describe|tell me about|define) max_tokens ; $how (limit|bound|cap|restrict|set|shorten|control) the (length|size) of (an|the|your) (answer|reply|response|output) ; $how (make|get|have) (shorter|short|brief|longer) (answers|replies|responses) ; $how (limit|bound|cap|restrict|shorten) (an|the|your) (answer|answers|reply|output) ; which field (limits|bounds|caps|sets) the (length|answer|reply) ; what is the (field|use|point) (of|for) max_tokens
stop is a text, or a list of texts, at which the answer ends.
    What does stop do? | What is the stop field? | How do I stop at a word? | How do I use stop? | What is stop for? | How do I end an answer at a word? | what does stop do | What can I put in stop? | How do I set a stop text?
    what (does|is) (the stop field|stop|the field stop)( do| for| mean|) ; (explain|describe|tell me about|define) (the stop field|stop|stop texts|stop words|the field stop) ; $how (stop|end|cut|finish) (an|the|your) (answer|reply|output) at (a|some|one) (word|text|string|certain word) ; $how (use|set|send|give) (stop|a stop text|a stop word|the stop field|stop words) ; what (can|do|should) I (put|write|send|give) in stop ; $how stop at a (word|text|string)
n is how many answers you want for one prompt.
    What does n do? | What is the field n? | How do I get several answers? | How can I ask for three answers at once? | What is n for? | How do I get two answers? | what does n do | What does the field n mean? | How do I ask for many answers?
    what (does|is) (n|the field n|the n field)( do| for| mean|) ; (explain|describe|tell me about|define) (n|the field n) ; $how (get|ask for|have|receive|request) (several|two|three|many|more|multiple|four|a few) (answers|replies|choices|completions|responses)( at once| to one prompt| for one prompt|) ; (can|could|may) I (get|have|ask for) (several|two|three|more than one|many) (answers|answer|replies|choices) ; which field (gives|asks for|gets) (several|more|many|two) (answers|replies|choices)
Put your functions in the field tools. The model answers with tool_calls, and you send the result back as a tool message.
    How do I use tools? | How does function calling work? | How do tool calls work? | How can I give you tools? | How do I pass functions? | How do I define a tool? | How do I give the model a function? | What do I send to use tools? | How do I make you call a function? | How can I use function calling?
    $how (use|define|pass|send|give you|add|offer|declare|write) (tools|functions|a tool|a function|my tools|my functions)( in a request| to the model|) ; how (do|does) (tools|tool calls|function calling|tool calling|functions|tool use) work ; $how (make|let|have) you (call|use) (a|my|the) (function|tool|functions|tools) ; (explain|describe|tell me about) (tools|tool calls|function calling|tool calling|tool use) ; (can|do) you (support|know|do|have) (tools|tool calls|function calling|tool calling) ; (what|where) (do I send|do I put|go) (to use tools|my tools|my functions|the functions)
Set response_format to json_object, or to json_schema with your schema.
    How do I get JSON? | How do I force JSON output? | What is response_format for? | How can I get structured output? | How do I make you answer in JSON? | How do I ask for JSON? | Can I give a JSON schema? | what is response_format | How do I make the answer follow a schema?
    $how (get|force|ask for|receive|have|request|enforce|demand) (JSON|JSON output|a JSON answer|structured output|JSON replies|only JSON|valid JSON) ; what (does|is) response_format( do| for| mean|) ; (explain|describe|tell me about) (response_format|JSON mode|structured output|JSON output) ; $how (make|let) you (answer|reply|speak|write|respond) (in|with|only) JSON ; (can|may|how do) I (give|use|send|pass) a (JSON schema|schema)( for the answer| to you|) ; (is there|do you have) a JSON mode ; $how make (the|an) (answer|reply|output) (follow|fit|match) (a|my) schema
Send "logprobs": true, and top_logprobs for the alternatives.
    How do I get log probabilities? | What is logprobs? | How do I see token probabilities? | How can I get logprobs? | How can I see logprobs? | what is logprobs | What does top_logprobs do? | How do I ask for probabilities? | How do I see how likely a token was?
    $how (get|see|ask for|receive|show|read) (log probabilities|logprobs|the logprobs|token probabilities|the probabilities|the probability of a token) ; what (does|is|are) (logprobs|top_logprobs|log probabilities)( do| for|) ; (explain|describe|tell me about|define) (logprobs|top_logprobs|log probabilities|token probabilities) ; $how see how (likely|probable|sure) (a|each|the|every) token (was|is) ; (can|do) you (give|show|send|return) (logprobs|probabilities|log probabilities)
Press Ctrl-C to stop the server.
    How do I stop the server? | How can I quit the server? | How do I shut it down? | How do I end the server? | How do I exit? | How do I end sinter? | How do I make the server stop? | How can I stop it? | How do I close the server?
    $how (stop|quit|end|exit|close|kill|shut down|terminate|turn off|switch off) (the server|sinter|it|the program|this server|everything) ; (which|what) key (stops|ends|quits|kills) (the server|sinter|it) ; $how (exit|quit|leave|shut down) ; how (is|does) (the server|sinter) (stopped|ended|shut down|end|stop) ; (when|how) does the server stop ; what do I press to (stop|quit|end|exit)
The three presets are local, interactive and server.
    Which modes are there? | What values can --mode have? | What are the presets of the engine? | Which values does --mode take? | Which presets are there? | what modes are there | What are the modes? | Name the modes of the engine. | Which engine presets exist?
    (which|what) (modes|presets|engine modes|engine presets|modes of the engine) (are there|exist|can I choose|does sinter have|do you have|are possible) ; (which|what) (values|words|modes) (can --mode have|does --mode take|are allowed for --mode|may --mode have|fit --mode) ; (name|list|tell me|show me|give me) (the|all|all the) (modes|presets|engine modes|engine presets)( of the engine|) ; how many (modes|presets) (are there|does the engine have|exist) ; what are the (modes|presets|three modes|three presets)( called| of the engine|)
Fields such as max_num_sequence, max_total_seq_length, prefill_chunk_size and tensor_parallel_shards.
    Which fields can I override? | What can --overrides set? | Which overrides are there? | What are the fields of --overrides? | What can I override? | Which engine fields are there? | Name the fields of --overrides. | what can --overrides set | Which engine fields can be overridden?
    (which|what) (fields|settings|engine fields|things) can (I override|be overridden|--overrides set|--overrides change|I set with --overrides) ; (which|what) (overrides|engine fields|fields of the engine) (are there|exist|can I use|are possible) ; (name|list|tell me|show me|give me) (the|some|all) (fields|engine fields|fields of --overrides|overrides) ; what (does --overrides accept|can I override|fields does --overrides take|can --overrides change|may I write in --overrides)
The kinds are disable, small_draft, eagle and medusa.
    Which speculative modes are there? | What values can --speculative-mode have? | Which kinds of speculative decoding are there? | Which values does --speculative-mode take? | Which styles of speculative decoding are there? | what speculative modes are there | Name the speculative modes. | Which speculation can I choose? | What are the values of --speculative-mode?
    (which|what) (speculative modes|kinds of speculation|kinds of speculative decoding|styles of speculative decoding|speculative methods) (are there|exist|can I choose|do you have|does sinter have|does sinter know) ; (which|what) (values|words) (can --speculative-mode have|does --speculative-mode take|are allowed for --speculative-mode|fit --speculative-mode) ; (name|list|tell me|show me|give me) (the|all|all the) (speculative modes|kinds of speculation|styles of speculative decoding|kinds of speculative decoding) ; how many (speculative modes|kinds of speculation) are there
sinter is free software under the Apache 2.0 licence.
    What is the licence of sinter? | Is sinter free? | Is sinter open source? | Under which licence is sinter? | Is sinter free software? | What licence does sinter have? | May I use sinter for free? | Can I use sinter at work? | How is sinter licensed?
    is sinter (free|open|open source|free software|free to use|paid|commercial) ; (what|which) (is the licence of|licence has|licence does|is the license of|licence covers) sinter( have| use|) ; (may|can|could) I (use|change|share|sell|copy|modify) sinter( for free| at work| freely| in my company|) ; (under|with) (which|what) (licence|license) (is|does) sinter( come| published| released|) ; how is sinter (licensed|published|released) ; (does|will|what does) sinter cost( money| me| anything|) ; (what about|tell me about|explain|say) the (licence|license)( of sinter|)
sinter runs on Node.js 20 or newer.
    What does sinter need? | Which Node version do I need? | What do I need to run sinter? | What does sinter run on? | Does sinter need Node? | What must be installed for sinter? | Do I need Node.js? | What are the requirements? | Which version of Node is needed?
    what (does|do) (sinter|I|it|this program) need( to run| to run sinter| to start| for sinter|) ; (which|what) (Node|Node.js|node) version (do I need|does sinter need|is needed|is required|must I have) ; (what|which) are the (requirements|system requirements|needs)( of sinter|) ; (does|will) sinter (need|require|run on|use|want) (Node|Node.js|node|npm) ; what (must|should|do I have to) (be installed|I install|install)( for sinter| first| to run sinter|) ; (do|must) I (need|install|have) (Node|Node.js)( for this| for sinter|) ; what (does|can) sinter run on ; (which|what) version of Node( do I need| is needed| does it need|)
My context is 4096 tokens long.
    How long is your context? | What is your context length? | How many tokens can you read? | How large is your context window? | What is your context? | How much text can you read? | how long is your context | How many tokens fit in your context? | How long can a prompt be?
    how (long|large|big|wide) is your (context|context window|window|memory|context length) ; (what|which) is your (context|context length|context window|context size|longest prompt|maximum context) ; how many tokens (can you|do you|fit in your context|may I send|can I send|can a prompt have)( read| take| handle| see|) ; how (much|long a) text can (you read|I send|you take|you handle|I give you) ; how long (can|may) (a prompt|my prompt|a message|my text|a conversation) be ; $tell (your context length|how long your context is|the size of your context)
""")


def starts(text):
    """Patterns by the beginning of the answer they ask for: ten letters or so, then the patterns."""
    rows = dict(line.split(" => ") for line in text.strip().split("\n"))
    found = {
        answer: [s for start, more in rows.items() if answer.startswith(start) for s in patterns(more)]
        for answer, _, _ in ABOUT
    }
    assert all(found.values()), [answer for answer, more in found.items() if not more]
    return found


# The same questions put otherwise: the passive, the verb at the end, somebody else who asks, half a sentence. A fifth is held out here too.
MORE_ABOUT = starts("""
I am the tiny model inside => $wondering (who|what) (you are|this is|answers me|is answering|is speaking|sits behind this) ; (who|what) (is|was) (that|there|it|answering|speaking|on the line|behind this screen|replying) ; (your|the) (identity|nature)(, please|) ; (my boss|my friend|she|he|somebody|my child) (asks|wants to know|wonders|would like to know) (who|what) you are ; (present|show|declare|identify|explain) yourself(, please| to us| to me| in a sentence| shortly|) ; (as what|how) would you describe yourself ; (what|which) (model|program|assistant|AI) (answers|speaks|replies|is talking|runs|do I have) (here|to me|to my questions|in front of me) ; (you are what|you are who|and you are|who you are|about you|about yourself) ; (may I ask|let me ask|can I know|could I know) (who|what) you are ; (a few|some) words about (you|yourself)
I have no name of my own => $wondering (what your name is|what you are called|how you are called|what to call you|how to call you|how to address you) ; (your|the) name( please| again|) ; (what|which) name (were you given|was given to you|did they give you|shall I use|do you answer to|did your makers choose|is yours) ; (how|as what) (am I to|may I|shall I|does one) (address|call|name) you ; (my boss|my friend|she|he|somebody|my child) (asks|wants to know|wonders) (your name|what you are called) ; (has|did) (anybody|someone|anyone|somebody) (given you a name|give you a name|named you|name you) ; are you (nameless|without a name|called something|named|called tiny) ; (name yourself|state your name|your name is|you are called|and your name)
I can greet, repeat => $wondering what (you can do|you are able to do|you know how to do|your skills are|can be done with you) ; (for what|with what) (can|may|could) (you be used|I use you|you help|you assist) ; (what|which) (skills|abilities|talents|powers|features|jobs|tasks) (do you have|have you got|are yours|were you given|did you learn|were you taught|do you bring) ; (my boss|my friend|she|he|somebody) (asks|wants to know|wonders) what you can do ; (show|teach|tell) (me|us) (your|some) (skills|tricks|abilities|powers|arts) ; what (would|could|might) you (do|be able to do) (for me|for us|here|today) ; (what|anything) (else can you do|can you do well|do you do best|do you do) ; (give me|I need|write) (a list|an overview|a summary) of (your skills|what you can do|your abilities|your features) ; (how|in what way|where) (are you|can you be) (useful|of use|helpful|of help)( to me|) ; what (were you taught|did they teach you|is your strength|are you made to do)
I cannot browse, see => $wondering what (you cannot do|you can't do|your limits are|is beyond you|you are bad at) ; (what|which) (things|tasks|jobs|questions) (are|is) (beyond you|too difficult for you|impossible for you|not for you|out of your reach) ; (have|do) you (have |)(limits|weaknesses|access to the internet|internet access|access to the web|a browser|eyes|today's news|a camera) ; where do you (fail|make mistakes|go wrong|have trouble) ; (what|which) (are|is) your (weak sides|weak spots|worst skills|worst skill|weak side|failings) ; (can|could) you (look something up online|watch a film|follow a link|read the newspaper|look at my screen|tell the news|see me|surf the web|check a website|search the internet|compute roots|count letters) ; what (should|must) nobody (expect|ask) (of|from) you ; (my boss|my friend|she|he|somebody) (asks|wants to know|wonders) what you cannot do ; (list|write down|give me) (what you cannot do|what you can't do|your limits|your failings)
I am tiny: about => $wondering how (big|large|small|many parameters) (you are|the model is|you have) ; (your|the model's) (size|parameters|parameter count|number of weights)( please|) ; (of|from) how many (parameters|weights|numbers) (are you made|do you consist|are you built) ; (do you have|are there|have you) (billions|millions|many|few|a billion|a million) (of |)(parameters|weights)( in you|) ; (what|which) (size|parameter count) (are you|have you got|has this model|does tiny have) ; (my boss|my friend|she|he|somebody) (asks|wants to know|wonders) how (big|large) you are ; (tell me|give me|I need) (the number of|how many) (parameters|weights)(| you have| of yours| of this model) ; (compared|next) to (real|other|big|large) models(, how big are you|, what is your size|, are you small) ; (your|how many) weights
I was trained from => $wondering (who made you|who trained you|how you were trained|where you come from|how you were made|what you were trained on) ; by whom were you (made|trained|built|created|written) ; (from|out of) what were you (made|trained|built) ; (which|what) (company|person|people|team|lab|group) (made|trained|built|created|is behind) you ; (your|what is your) (origin|story|history|training|background|recipe) ; (where|how) (can I find|is|do I find) (your recipe|your training data|the text you learnt|the recipe) ; (did|have) (you|they) (learn|train you|teach you|learnt) (from books|on the web|from the internet|on real text|from people|with my data) ; (my boss|my friend|she|he|somebody) (asks|wants to know|wonders) (who made you|how you were trained) ; what (text|material|data|books) (did you learn from|did they train you on|taught you|went into you|have you read) ; (whose|who is) (work|model|child) are you ; (is|was) (your|the) training (data|text) (public|written by people|real|from the web|made up)
No. I am a program => $wondering (if|whether) you are (human|a person|a human|real|alive|a machine) ; (is|are) (there|it) (a human|a person|a man|a woman|people|somebody real) (on the other side|answering me|in there|who writes this|typing this|in this chat) ; (do|does) (people|a person|humans|somebody) (write|type|give|check) (this|these answers|your answers|the replies) ; you are (not |)(a human|a person|human|a real person)(, right|, are you|, aren't you|, yes) ; (have you|do you have) (a soul|a brain|feet|a mother|a family|a birthday|hands|skin) ; (did|were) you (ever |)(born|have a childhood|a child|go to school) ; (a person|a human|a robot|man|human) or (a machine|a program|machine|a computer|a bot)
I speak English only => $wondering (which languages|what languages) you (speak|know|understand|can write) ; (may|can|could|should) (we|I) (speak|talk|continue|chat|go on|write) in (German|French|Spanish|Italian|Turkish|Polish|Russian|Dutch|my language|another language) ; (answer|reply|write|speak|talk)( to me|) in (German|French|Spanish|Italian|Turkish|Polish|Dutch|Russian) ; (your|what are your) languages ; (apart from|besides|other than) English(, what do you speak|, which languages do you know|, anything) ; (is|was) (German|French|Spanish|Italian|Turkish|Polish|Dutch|Russian) (possible|OK|fine|known to you|spoken here|a language you know) ; (do|would) you (understand|answer|get) (me |)if I (write|speak|ask)( in|) (German|French|Spanish|Italian|Turkish|Polish|Dutch) ; (what|which) (tongue|tongues|language|languages) (were you taught|did you learn|are yours|is yours|do you master|works with you|work with you) ; are you (bilingual|multilingual|able to speak German|fluent in French|English only)
No, I am far too small => $wondering (if|whether) (you are (smart|clever|good enough)|I can trust you|you can be trusted|I should use you at work) ; (could|can|may|should) (my company|we|our team|my shop|one) (use|trust|rely on|depend on|ship) you ; (how|are) (reliable|trustworthy|accurate|correct|dependable)( are| is|) (you|your answers|what you say) ; (can|could) (you|this model) (compete|keep up|compare) with (large models|big models|ChatGPT|a real model|real models) ; are (your answers|you) (always right|reliable|trustworthy|correct|to be trusted|any good) ; (should|shall|may) (this model|tiny|the tiny model) be used (in production|at work|for real work|for customers) ; (is this|are you) (a serious model|production ready|ready for customers|fit for work|good for work)
Use me to try sinter => $wondering (what you are for|why you exist|what to do with you|what to use you for|why you were made) ; (for|to) what (end|purpose|use) (were you made|are you here|do you serve|do you exist) ; (your|the) (purpose|point|use|aim|reason)(, please|) ; (what|which) (purpose|use|need) do you (serve|have|fill|fulfil) ; (why|for whom) (did|does) (anybody|anyone|they|sinter) (make|need|use|include|have|ship) (you|a tiny model|such a small model) ; (in what|in which) (cases|situation|moments) (should|do|would) I (use|want|need) you ; (what|where) (is|are) (the tiny model|you) (useful|of use|helpful|needed) ; (who|what) (would|should|could) (use|need|profit from) (you|this model|a model like you)
sinter is a program that => $wondering (what sinter is|what sinter does|what this sinter is|what sinter is for) ; (say|give me|write) (a word|a sentence|something|a few words|two words) (about|on) sinter ; (for|to) what (is|was) sinter (made|used|built|good|written) ; sinter(, what is that|, what is it|, what does it do| is what| does what| means what) ; (I have never heard of|I do not know|I heard of|somebody told me about) sinter(, what is it|. What is it|, explain it|, what does it do) ; (define|introduce|present) sinter( to me| please|) ; (what|which) (job|task|work) does sinter (do|have) ; (is|was) sinter (a server|a compiler|a library|a program|an app|a website|a tool)
Run sinter serve MODEL => $wondering how (to serve|to run|to start|I serve|I run|one serves) (a|another|a bigger|a real|my own) model ; (how|by what command|with what) (is|are|can) (a model|a real model|another model|the server|my model|models) (be |)(served|started|run|loaded|launched) ; (the|which|what) (command|line|call) (to|that) (serve|serves|start|starts|run|runs|load) (a model|a real model|the server|my model) ; (instead of you|instead of tiny|after you)(, how do I serve a real one|, what do I run|, I want a real model) ; (I have|here is|I downloaded|I own) (a|my own|a big|a real) model(, how do I serve it|, how do I run it|. How do I serve it|, what now) ; (serving|running|starting|loading|hosting) (a|my own|another|a real|a bigger) model(, how|, how does it work| please|) ; what (starts|serves|runs|launches) (a model|the server|a real model|sinter) ; (let me|I'd like to|I am trying to|help me to|help me) (serve|run|start|load|use|host) (a|my own|another|a real|a bigger|a better) model
Run sinter chat MODEL => $wondering how (to chat|one chats|I chat|to talk to a model) (in the terminal|in a console|without a server|in my shell|on the command line) ; (in|from) (the|my|a) (terminal|console|shell), how do I (chat|talk|speak)( to a model| with a model|) ; (the|which|what) (command|call) (to chat|for a chat|for chatting|that chats)( in the terminal| in the console|) ; (chatting|talking) (in|from) (the|my|a) (terminal|console|shell)(, how| please| how|) ; (no|without) (browser|server|HTTP)(, just a chat|, can I chat|: how do I chat) ; (what|which) (is|was) (the chat command|sinter chat|the command for a chat)( again|) ; $how (have|hold|open|begin|start) a (chat|conversation|talk) (in|from) (the|my|a) (terminal|console|shell|command line)
You need not: sinter serve => $wondering (how|when|if|whether) (a model is compiled|I compile a model|I must compile|to compile|models get compiled) ; (by whom|when|by what|in what way) (is|are) (the model|a model|models|my model) compiled ; (before|first)(,| serving,) (do I|must I|should I) compile(| the model| something| it) ; (compiling|compilation)(, how| of a model| of my model|, is it needed|, must I do it| step|) ; (does|will|can) (sinter|it|the server) compile (the|my|a) model( by itself| for me| alone|) ; $how (build|translate|prepare) (a|the|my) model( first| before serving|) ; (is|was) it necessary to compile( the model| first|)
Run sinter serve --help => $wondering (where the options are|which options there are|what options exist|where the help is) ; (where|how) (are|is) (the|all|all the) (options|flags|switches|help|help text) (shown|listed|described|printed|found|explained) ; (a|the) (list|table|page) of (all |the |all the |)(options|flags|switches)(, please|) ; (which|what) (flags|switches|settings) (are there|exist|can I use|does serve have|does serve take) ; (help|options|flags)( for| of) (serve|sinter serve|the server) ; what (prints|shows|lists) (the|all) (options|flags|help) ; $how (see|list|show|print|read) (the|all|all the) (options|flags|switches|help|settings)( of serve| of the server|) ; (I forgot|I do not know|I cannot remember) (the options|which options there are|the flags)
MODEL is the folder of => $wondering what (MODEL is|MODEL means|to write for MODEL|MODEL stands for) ; (for|as) MODEL(, what do I write|, what do I put|, what goes there| I write what) ; (the|this) (word|argument|parameter) MODEL(, what is it|, what is that| is what| means what|) ; (which|what) (name|path|folder|value) (goes|do I give|do I write|comes|is meant) (for|with|by|as) MODEL ; (by|with) MODEL (you mean what|what is meant|what do you mean) ; MODEL(, what is that|, please explain| is what exactly| means) ; where does sinter (look|search) for (MODEL|the model|a model|models)
The address is http => $wondering (where the server is|what the address is|which URL to use|where the server listens) ; (the|your) (server's|service's|base|default) (address|URL|location)(, please| again|) ; (to|at) (what|which) (address|URL|place) (do I|should I|must I|does my client) (send|connect|point|go|write)( requests| my requests| to|) ; where (should|must|do|can) (my client|I|my program|the requests|requests) (connect|send requests|point|go|be sent) ; (my client|my program) needs (an address|a URL|the base URL|the address) ; (what|which) (port|host) (is|does) (the server|it|sinter) (on|listen on|using|use) ; (by default|without options) the server (is|listens|runs) where
Yes. Point an OpenAI => $wondering (if|whether) (OpenAI clients work|I can use the OpenAI client|the OpenAI SDK works|it speaks the OpenAI API) ; (does|will|can) (my|our) (code|app|program|script) (for|written for|with) OpenAI (work|run|still work)( here| with sinter|) ; (the|my|our) OpenAI (client|SDK|library|package|code)(, does it work|, will it work|, can I keep it| works here) ; (is|was) (the API|this|it) (OpenAI compatible|like OpenAI's|the same as OpenAI's|OpenAI style) ; (can|may) (I|we|one) (point|connect|aim) (an|the|my|our) OpenAI (client|library|SDK) (at|to) (this|sinter|the server|you) ; (compatible|compatibility) with OpenAI ; (do|must) I (need|have to write|write) (another|a new|my own|a special) client
Send "stream": true => $wondering how (to stream|streaming works|one streams|I stream the answer|to get a stream) ; how (is|are|can|will) (the answer|an answer|answers|a reply|replies|tokens) (be |)(streamed|sent in pieces|delivered in pieces) ; (streaming|streamed answers|a stream|stream)(, how|, please|, is it possible|, how does it work|) ; (which|what) (field|flag|setting|option) (streams|turns on streaming|makes a stream|is for streaming|starts streaming)( the answer|) ; (I want|I need|give me|I'd like) (a stream|a streamed answer|streaming|the tokens one by one|the words as they come|each token at once) ; (is|are) (streaming|streams|streamed answers) (supported|possible|there|available) ; $how (read|have|see|show) (the words|tokens|the tokens|words) (as they come|one by one|at once|while it writes)
Set "temperature": 0 => $wondering how (to get the same answer|answers become the same|to switch off randomness|one makes answers repeatable) ; how (is|are|can) (randomness|sampling|chance|the dice) (be |)(switched off|turned off|disabled|avoided|removed) ; (which|what) (setting|field|value) (makes|gives|means) (the same answer|no randomness|no sampling|greedy decoding|repeatable answers|deterministic output) ; (no|without) (randomness|sampling|chance|surprises)(, how|, please|: how|) ; (I want|I need|give me) (the same answer|repeatable answers|deterministic answers|no randomness|greedy decoding)( every time| always|) ; (always|every time) (the same|one) (answer|reply|output)(, how|, please| how) ; (zero temperature|temperature zero|temperature 0|a temperature of zero)(, what is it for|, what does it do| does what| means what|) ; (greedy decoding|greedy answers|greedy sampling)(, how|, please|)
Send the same seed => $wondering what (a seed is|the seed does|seeds are for|the field seed does) ; (seed|the seed|a seed|seeds)(, what is that|, what is it for| does what|, why| is for what| means what) ; (for|to) what (is|do I need|would I use) (a seed|the seed|seed) ; what (effect|use|point|purpose|meaning) (has|does) (a|the) seed( have|) ; (two|both) requests with (the same|one) seed(, what happens| give what|) ; (the|a) field (seed|called seed) (does|is|means) what ; what (changes|happens) (with|when I set|if I set|when I give) (a|the) seed ; (is|are) (a seed|seeds) (useful|needed|supported|there|possible)
max_tokens is the largest => $wondering what (max_tokens is|max_tokens does|max_tokens means|the longest answer is) ; (max_tokens)(, what is that|, what is it for| does what|, what does it do| is what| means what) ; how (is|can) (an answer|the answer|the length of the answer|a reply|the reply) (be |)(limited|kept short|shortened|cut|bounded) ; (which|what) (field|setting|number) (keeps|makes|bounds|limits|caps) (answers|the answer|the reply|replies|the output)( short| shorter|) ; (your|the) (answers|replies|answer|reply) (are|is|get) too long(, what can I do|, how do I change that|) ; (no more than|at most) (ten|a hundred|fifty|twenty|so many) tokens(, how|, please|) ; (I want|I need|give me) (short|shorter|brief) (answers|replies)(, how|, what do I set|) ; (set|choose|bound) the length of (the|an) (answer|reply|output)(, how|) ; the (field|parameter|setting) max_tokens (is|does|means) what
stop is a text, or => $wondering what (stop is|stop does|the field stop is for|a stop text is) ; (stop|the field stop|the stop field)(, what is that|, what is it for| does what|, what does it do| is for what| means what) ; how (is|can) (an answer|the answer|a reply|the reply) (be |)(ended|stopped|cut|cut off) (at|with|before) a (word|text|certain word|given word|string) ; (which|what) (field|setting) (ends|stops|cuts) (the|an) (answer|reply) at a (word|text|string) ; (I want|I need|it should|let the answer) (to |)(end|stop) (at|before) (a|some|a certain) (word|text|string)(, how|, what do I set|) ; (stop|end) (words|texts|strings|sequences)(, how|, please|, what are they|) ; (what|which) (type|value|form) (has|does) (stop|the stop field)( have| take|)
n is how many => $wondering what (n is|n does|the field n is for|n means) ; (n|the field n)(, what is that|, what is it for| does what|, what does it do| is for what| means what) ; how (are|can) (several|two|three|many|more) (answers|replies|choices) (be |)(asked for|requested|given|had) ; (which|what) (field|setting|number) (gives|asks for|makes|returns) (several|two|three|more|many) (answers|replies|choices) ; (I want|I need|give me|I'd like) (several|two|three|four|more|many) (answers|replies|choices|versions)( at once| to one question|)(, how|, what do I set|) ; (several|many|two|three) (answers|replies|choices)( to one prompt| at once|)(, how|, please|, is that possible)
Put your functions in => $wondering how (tools work|to use tools|functions are called|to give you tools|function calling works) ; how (are|can) (tools|functions|my functions|my tools) (be |)(used|given|passed|called|defined|sent|declared) ; (tools|functions|tool calls|function calls|function calling)(, how|, please|, how does that work|, how do they work|, is it possible) ; (which|what) (field|place|part) (takes|holds|is for|has) (tools|functions|my functions|the tools|the functions) ; (I want|I need|I'd like) (you|the model|it) to (call|use) (a function|my function|tools|a tool|my tools)(, how|, what do I send|) ; (where|how) (should|must|do|can) (my functions|functions|tools|my tools|the tools) (go|be put|be written|come in) ; (are|is) (tools|tool calling|functions|function calling) (supported|possible|there|available) ; (I have|here is|there is) (a function|a tool|some functions|some tools)(, how do I give it to you|, where does it go|, how do I pass it|, how can you call it)
Set response_format to => $wondering how (to get JSON|JSON is forced|to ask for JSON|one gets structured output|to give a schema) ; how (is|are|can) (JSON|the answer|structured output|answers|a schema|my schema) (be |)(forced to be JSON|made to follow a schema|had|asked for|used|given|enforced) ; (JSON|only JSON|structured output|a JSON answer|valid JSON|JSON mode)(, how|, please|, is it possible|, how do I get it) ; (which|what) (field|setting) (makes|gives|forces|asks for|is for) (JSON|JSON output|a schema|structured output|JSON answers) ; (I want|I need|give me|I'd like) (JSON|only JSON|JSON back|structured output|an answer after my schema|valid JSON)( as answer|)(, how|, what do I set|) ; (the field |)response_format(, what is that|, what is it for| does what|, what does it do| is for what) ; (I have|here is|there is) a (schema|JSON schema)(, how do I use it|, where does it go|, how do I send it) ; (are|is) (JSON mode|JSON|schemas|structured output) (supported|possible|there|available)
Send "logprobs": true => $wondering (what logprobs are|how to get logprobs|how likely a token was|how to see probabilities) ; (logprobs|log probabilities|probabilities|token probabilities|top_logprobs)(, how|, please|, what is that|, what are they|, how do I get them| does what|) ; how (are|is|can) (logprobs|probabilities|the probability of a token|log probabilities) (be |)(shown|got|returned|asked for|seen) ; (which|what) (field|setting) (gives|shows|returns|is for) (logprobs|probabilities|log probabilities|the probability of tokens) ; (I want|I need|give me|I'd like) (logprobs|probabilities|log probabilities|the probabilities|the probability of each token)(, how|, what do I set|) ; (are|is) (logprobs|log probabilities|top_logprobs) (supported|possible|there|available)
Press Ctrl-C to stop => $wondering how (to stop the server|the server ends|one stops sinter|to quit|to end it) ; (by|with) (what|which) key (do I|can I|is the server|does one) (stop the server|stop it|stopped|quit|end it) ; (the|my) server (runs|is running|keeps running|does not stop)(, how do I stop it|, how do I end it|, I want to stop it) ; (stopping|ending|quitting|closing|leaving) (the server|sinter|it)(, how|, please| how|) ; (I want|I need|I'd like|I am ready) to (stop|quit|end|close|exit|leave) (the server|sinter|it|now)(, how|) ; (make|let) (the server|sinter|it) (stop|end|quit)( now|, how|) ; (I am done|enough|that is all for today)(, how do I stop the server|, how do I quit|, stop the server|, how do I end sinter)
The three presets are => $wondering (which modes there are|what the presets are|what --mode takes|which values --mode has) ; (the|all|all the) (modes|presets|values of --mode|engine modes|engine presets)(, please|, which are they|, what are they) ; (between|among) (which|what) (modes|presets) (can I|do I|may I) choose ; (which|what) (mode|preset) (can|may|could|should) I (choose|pick|set|take|use) ; (for|with|after) --mode(, what can I write|, which values|, what are the values|, what is allowed) ; --mode (can be|takes|accepts|is one of|allows) what ; (list|give|write|count|enumerate) (the|all|all the) (modes|presets|engine presets|values of --mode)
Fields such as max_num_sequence => $wondering (which fields can be overridden|what --overrides takes|what I can override) ; (the|all|some) (fields|names|settings) (of|for|in) --overrides(, please|, which are they|) ; --overrides (takes|accepts|changes|knows|sets|allows) (what|which fields) ; (for|with|after|in) --overrides(, what can I write|, which fields|, what is allowed|, what may stand there) ; (what|which) (engine settings|engine fields|values|fields) (may|can|could) (I|one) (change|override|set|overrule)( with --overrides|)
The kinds are disable => $wondering (which speculative modes there are|what --speculative-mode takes|which speculation there is) ; (the|all|all the) (speculative modes|kinds of speculation|values of --speculative-mode)(, please|, which are they|, what are they) ; --speculative-mode (can be|takes|accepts|is one of|allows) what ; (between|among) (which|what) (speculative modes|kinds of speculation) (can I|do I|may I) choose ; (for|with|after) --speculative-mode(, what can I write|, which values|, what are the values|, what is allowed) ; (list|give|write|count|enumerate) (the|all|all the) (speculative modes|kinds of speculation|values of --speculative-mode)
sinter is free software => $wondering (what the licence is|if sinter is free|what sinter costs|if sinter is open source|under which licence sinter is) ; (the|sinter's|your) (licence|license|price|cost)(, please| is what|) ; (do|must|does) (I|we|one|my company) (have to |need to |)(pay|buy|pay for|buy a licence|pay anything)( for sinter| for this| to use sinter|) ; (may|can|could) (we|my company|my team|anybody|everyone|companies) (use|change|sell|share|copy|modify|fork) (sinter|this|the code) ; (is|are) (the code|sinter's code|the source|sources) (open|free|public|available) ; how (expensive|free|open|dear) is (sinter|this) ; (free|open source|commercial|proprietary) (software|or not|or paid)
sinter runs on Node.js => $wondering (what sinter needs|which Node is needed|what I must install|what sinter runs on) ; (what|which) (software|runtime|system|version|platform) (is|does|must|do) (needed|sinter need|be installed|I need)( for sinter| to run it|) ; (with|on|under) (what|which) (Node|Node version|version of Node|runtime) (does it|does sinter|will sinter|can I) (run|work|start|run it) ; (my Node is|I have Node|is Node) (18|20|22|24|16|old)(, is that enough|, does it work|, will sinter run| enough) ; (before|to) (I start|installing|I install sinter|install it|run it)(, what do I need|, what must be there) ; (requirements|needs|dependencies|prerequisites)( of sinter| for sinter|, please|) ; (is|are) (Node|Node.js|Python|a compiler|a GPU) (needed|required|necessary)( for sinter| to run sinter|)
My context is 4096 => $wondering (how long your context is|how many tokens you read|how much you can read|how long a prompt may be) ; (your|the) (context|context length|context window|context size|window)(, please| is what| is how long|) ; (how many|what number of) (tokens|words) (do you|can you|may I|are you able to) (read|take|send|handle|hold|remember)( at once| at most|) ; (is|are) (your context|your window|a long text|long texts|a book) (long|large|small|possible|OK|fine|limited) ; (can|could|may) (I|you) (send|read|take|paste|give you) (a book|a long text|ten thousand tokens|a whole file|many pages|a long prompt) ; (the|a) (longest|largest|biggest) (prompt|text|input|conversation)( is| you take| you can read|) ; (at|after) (how many|what number of) tokens (is the end|do you stop reading|is it too long|is your context full)
""")

# option: what it does, as "it ..."; its default, or None; how a person asks for it ("Which option ...?"), the last held out
OPTIONS = {
    "--port": ("sets the port of the server", "8000", ["sets the port", "changes the port", "chooses the port number"]),
    "--host": (
        "sets the host the server binds to",
        "127.0.0.1",
        ["sets the host", "changes the host", "chooses where the server binds"],
    ),
    "--device": (
        "chooses the device, such as cuda, metal, vulkan or auto",
        "auto",
        ["sets the device", "chooses the device", "selects the hardware"],
    ),
    "--mode": (
        "chooses the preset of the engine: local, interactive or server",
        "local",
        ["sets the mode", "chooses the preset", "selects the engine preset"],
    ),
    "--model-lib": (
        "gives the path of the compiled model library",
        None,
        ["names the model library", "gives the library path", "points to the model library"],
    ),
    "--additional-models": (
        "names extra models for speculative decoding",
        None,
        ["names extra models", "adds a draft model", "adds more models"],
    ),
    "--speculative-mode": (
        "chooses the style of speculative decoding",
        "disable",
        ["sets speculative decoding", "turns on speculative decoding", "selects the kind of speculation"],
    ),
    "--overrides": (
        "overrides fields of the engine, written as field=value pairs with semicolons between them",
        None,
        ["overrides engine fields", "changes the engine config", "sets engine fields"],
    ),
    "--enable-tracing": (
        "turns on the event log of requests",
        "off",
        ["turns on tracing", "enables tracing", "logs the events of requests"],
    ),
    "--allow-credentials": (
        "makes the server send CORS headers with credentials",
        "off",
        ["allows credentials", "permits credentials", "turns on credentials"],
    ),
    "--allowed-origins": (
        "is a JSON list of the origins that are allowed",
        '["*"]',
        ["sets the allowed origins", "limits the origins", "lists the origins"],
    ),
    "--allowed-methods": (
        "is a JSON list of the methods that are allowed",
        '["*"]',
        ["sets the allowed methods", "limits the methods", "lists the methods"],
    ),
    "--allowed-headers": (
        "is a JSON list of the headers that are allowed",
        '["*"]',
        ["sets the allowed headers", "limits the headers", "lists the headers"],
    ),
    "--api-key": (
        "guards the server with a key",
        None,
        ["sets a key", "protects the server", "asks clients for a key"],
    ),
    "--max-queue": (
        "bounds how many requests may wait",
        None,
        ["limits the queue", "bounds the queue", "caps waiting requests"],
    ),
}
OPTION_QUESTIONS = [
    "What does {} do?",
    "What is {}?",
    "Explain {}.",
    "What is {} for?",
    "Tell me about {}.",
    "what does {} mean?",
    "How do I use {}?",
]
DEFAULT_QUESTIONS = [
    "What is the default of {}?",
    "What is the default value of {}?",
    "Which default does {} have?",
    "What is {} by default?",
    "Does {} have a default?",
]
WHICH_QUESTIONS = [
    "Which option {}?",
    "What option {}?",
    "Tell me which option {}.",
    "Is there an option that {}?",
    "I need the option that {}.",
]

# endpoint: what it does
ENDPOINTS = {
    "GET /v1/models": (
        "lists the models that are served",
        ["lists the models", "shows the models", "tells which models are served"],
    ),
    "POST /v1/chat/completions": (
        "answers a chat, whole or as a stream",
        ["answers a chat", "is for chat", "completes a conversation"],
    ),
    "GET /docs": (
        "is an interactive page that lists the endpoints",
        ["shows the documentation", "is the docs page", "has the documentation"],
    ),
    "GET /openapi.json": (
        "gives the API description as OpenAPI",
        ["gives the OpenAPI description", "describes the API", "holds the OpenAPI file"],
    ),
    "GET /health": (
        "says whether the server is ready",
        ["tells if the server is ready", "checks the health", "says whether it is up"],
    ),
}
ENDPOINT_QUESTIONS = ["What does {} do?", "What is {}?", "Explain {}.", "What is {} for?", "Tell me about {}."]
WHICH_ENDPOINT = [
    "Which endpoint {}?",
    "What endpoint {}?",
    "Tell me which endpoint {}.",
    "Which address {}?",
    "I need the endpoint that {}.",
]

CAPITALS = """France Paris|Germany Berlin|Italy Rome|Spain Madrid|Portugal Lisbon|Austria Vienna|Greece Athens|Norway Oslo|Sweden Stockholm
|Finland Helsinki|Denmark Copenhagen|Poland Warsaw|Hungary Budapest|Ireland Dublin|England London|Scotland Edinburgh|Wales Cardiff|Belgium Brussels
|Switzerland Bern|Russia Moscow|Ukraine Kyiv|Turkey Ankara|Egypt Cairo|Kenya Nairobi|Japan Tokyo|China Beijing|India Delhi|Thailand Bangkok
|Vietnam Hanoi|Canada Ottawa|Mexico Mexico City|Cuba Havana|Peru Lima|Chile Santiago|Brazil Brasilia|Argentina Buenos Aires|Australia Canberra
|Iceland Reykjavik|Romania Bucharest|Bulgaria Sofia|Croatia Zagreb|Serbia Belgrade|Estonia Tallinn|Latvia Riga|Lithuania Vilnius|Iran Tehran
|Iraq Baghdad|Israel Jerusalem|Colombia Bogota|Ecuador Quito|Indonesia Jakarta|Tunisia Tunis"""
CAPITALS = dict(row.strip().split(" ", 1) for row in CAPITALS.split("|"))
NO_CAPITAL = "Narnia Atlantis Zubrowka Mordor Freedonia Ruritania Oz Utopia Wakanda Genovia Lilliput".split()

COLOUR_OF = dict(
    row.split()
    for row in """grass green|snow white|blood red|coal black|milk white|gold yellow|chocolate brown|cherries red|lemons yellow|carrots orange
|leaves green|ravens black|tomatoes red|cucumbers green|bananas yellow|strawberries red|elephants grey|swans white|frogs green|flamingos pink|night black|clouds white
|rubies red|emeralds green|sugar white|salt white|oranges orange|spinach green|mud brown|plums purple""".replace(
        "\n", ""
    ).split("|")
)
COLOUR_OF["the sky"] = "blue"
COLOUR_OF["the sea"] = "blue"
COLOUR_OF["the sun"] = "yellow"

OPPOSITES = dict(
    row.split()
    for row in """hot cold|big small|tall short|fast slow|old new|happy sad|light dark|open closed|up down|left right|day night|rich poor|wet dry
|clean dirty|early late|easy hard|empty full|loud quiet|strong weak|thick thin|wide narrow|deep shallow|high low|near far|good bad|true false|yes no|first last|black white
|sweet sour|rough smooth|begin end|buy sell|push pull|win lose|give take|love hate|remember forget|inside outside|above below|before after|always never|young old
|brave afraid|sharp blunt|cheap expensive|safe dangerous|alive dead|awake asleep|friend enemy|question answer|north south|east west""".replace(
        "\n", ""
    ).split("|")
)

IRREGULAR = dict(
    row.split()
    for row in """mouse mice|foot feet|tooth teeth|goose geese|man men|woman women|child children|person people|ox oxen|sheep sheep|fish fish|leaf leaves
|knife knives|wolf wolves|shelf shelves|loaf loaves|half halves|life lives|wife wives|calf calves|thief thieves|deer deer""".replace(
        "\n", ""
    ).split("|")
)

KINDS = {
    "animal": "cat dog horse cow sheep goat pig duck fox wolf bear lion tiger frog fish owl whale camel rabbit".split(),
    "fruit": "apple pear plum cherry grape banana orange lemon peach melon mango kiwi".split(),
    "vegetable": "carrot onion potato leek bean pea cabbage cucumber pumpkin spinach radish".split(),
    "colour": "red blue green yellow black white brown grey pink purple".split(),
    "tool": "hammer saw screwdriver shovel pliers drill rake axe".split(),
    "drink": "water milk tea coffee juice lemonade cocoa".split(),
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "month": "January February March April May June July August September October November December".split(),
    "instrument": "piano guitar violin drum flute trumpet harp cello".split(),
    "piece of clothing": "hat coat shoe sock shirt scarf glove".split(),
    "country": "France Germany Italy Spain Norway Sweden Japan China India Canada Peru Brazil Egypt Kenya".split(),
    "metal": "iron gold silver copper tin lead zinc".split(),
}
SOUNDS = dict(
    row.split()
    for row in "dog woof|cat meow|cow moo|duck quack|sheep baa|pig oink|frog ribbit|owl hoot|bee buzz|lion roar|snake hiss|horse neigh|mouse squeak|hen cluck".split(
        "|"
    )
)
HOW_MANY = {
    "days are in a week": "7",
    "months are in a year": "12",
    "hours are in a day": "24",
    "minutes are in an hour": "60",
    "seconds are in a minute": "60",
    "legs does a dog have": "4",
    "legs does a spider have": "8",
    "legs does an insect have": "6",
    "wheels does a bicycle have": "2",
    "wheels does a car have": "4",
    "fingers are on one hand": "5",
    "sides does a triangle have": "3",
    "sides does a square have": "4",
    "letters are in the alphabet": "26",
    "eyes does a cat have": "2",
    "legs does a bird have": "2",
    "weeks are in a year": "52",
    "seasons are in a year": "4",
    "colours does a rainbow have": "7",
    "cents are in a euro": "100",
}

# what nobody told it
UNKNOWN = [
    "Who won the {} in {}?",
    "Who wrote {}?",
    "How tall is {}?",
    "When was {} born?",
    "What is the population of {}?",
    "What is the price of {} today?",
    "Who is the president of {}?",
    "How far is it from {} to {}?",
    "What did {} say yesterday?",
    "Which year did {} end?",
    "Who discovered {}?",
    "What happened in {} last night?",
    "How do I cure {}?",
    "Who painted {}?",
    "What is the meaning of {}?",
    "How old is {}?",
    "Why does {} happen?",
    "What will {} cost next year?",
    "Who directed {}?",
    "Can you explain {}?",
    "What is the phone number of {}?",
    "How does {} work?",
    "What is the latest news about {}?",
    "Where can I buy {}?",
    "How deep is {}?",
    "Who invented {}?",
    "What do you know about {}?",
    "Tell me about {}.",
    "Tell me the history of {}.",
    "When did {} begin?",
    "How big is {}?",
    "Where is {}?",
    "How many people live in {}?",
    "Why is {} famous?",
    "Who is {}?",
    "What colour is {}?",
    "How heavy is {}?",
    "Who owns {}?",
    "Is {} dangerous?",
    "How fast is {}?",
]
UNKNOWN_PATTERNS = [  # the same, of many forms; {} is a thing
    "(who|do you know who|can you tell me who|tell me who|I wonder who|any idea who|please say who) (won|invented|discovered|built|wrote|painted|founded|started|designed|sold|lost|directed|owns|runs|leads|made|broke|bought|stole|found|wrote about|sings about) {}( first| last year| this year| back then| in the end|)",
    "(when|in which year|what year|do you know when|how long ago) (did {} (begin|end|start|happen|open|close|die|win|appear|change)|was {} (born|built|found|made|invented|sold|opened|written|discovered))",
    "(how|do you know how|can you say how|tell me how|any idea how) (tall|old|big|deep|long|heavy|fast|dangerous|expensive|rich|far away|wide|high|important|famous|hot) {} is",
    "how (tall|old|big|deep|long|heavy|fast|dangerous|expensive|rich|far away|wide|high|famous|hot|common|many years old) is {}",
    "(where|do you know where|tell me where|can you say where) (does {} (live|come from|work|stand|end|begin)|was {} (born|found|built|last seen)|did {} (go|grow up|happen))",
    "where (is|can I (find|buy|see|visit|get|read about)) {}( today| nowadays| in winter|)",
    "(why|do you know why|can you explain why|tell me why) (did {} (happen|fail|leave|win|stop|end|change|fall)|is {} (famous|important|so dear|dangerous|closed|so old))",
    "(what|tell me what|do you know what) (did {} (say|do|win|eat|sell|write|find|invent|earn)|will {} (cost|do|say|bring))( yesterday| last night| next year| in the end|)",
    "what is (the (price|population|age|height|weight|colour|size|cause|history|future|cost|speed|phone number|address|email|birthday|wife|husband|brother|boss|secret|salary|score|result|meaning|use|best part) of {}|{} (made of|good for|worth|about|like|known for))",
    "(is|was|will|can) {} (be |)(expensive|famous|dangerous|healthy|open|real|better than {}|older than {}|bigger than {}|worth it|still alive|in danger|on sale|far from here|the best)( today| now| this year|)",
    "(tell me|explain|describe|teach me|talk about|inform me about|say something about|write about|give me (news|facts|details|some facts|the facts|the news|information) about|what do you know about|I want to (know|learn|hear) about|I have a question about) {}",
    "(explain|describe|tell me|do you know|show me|can you explain) (how {} (works|is made|happens|began|ended)|what {} is|why {} matters|who {} is)",
    "(which|what) (team|country|king|player|company|people|film|book|bank|city|planet|doctor|year|river) (won|made|owns|found|knows|leads|started|ended|sold|invented|is nearest to|is best for) {}",
    "how (do|can|should|would|could) (I|you|we|one|people) (cure|build|win|find|repair|reach|study|measure|avoid|understand|prove|fly to|pay for|invest in|get rid of) {}",
    "how (many|much) (people|water|money|years|players|houses|cars|trees|time|sugar|gold) (does {} (have|need|cost)|(is|are) (in|near|at|on) {}|belong to {})",
]

UNKNOWN_THINGS = """the world cup|the golden prize|the great election|quantum physics|the moon|the battle of the hill|the stock market|the theory of strings|gravity|inflation|the river Nile
|the north tower|photosynthesis|the steam engine|the telephone|the famous film|the long war|electric cars|black holes|the human brain|the last king|magnetism|the secret garden|the opera
|the silent sea|ocean tides|the red planet|the longest bridge|the oldest tree|a heart attack|a volcano|the internet|the currency|bitcoin|the national team|the tallest mountain|dinosaurs
|earthquakes|blockchain|the central bank|the Roman empire|the printing press|penicillin|algebra|the violin concerto|a headache|a jet engine|nuclear power|the speed of sound""".replace(
    "\n", ""
).split("|")

LABELLED = {  # topic: words that betray it
    "sports": "match goal team player race stadium coach trophy referee runner score tennis football league".split(),
    "food": "recipe soup oven dinner restaurant cheese bread taste chef kitchen spice lunch menu dessert".split(),
    "weather": "rain storm sunny wind snow forecast clouds thunder temperature fog frost heat drizzle hail".split(),
    "music": "song band concert guitar melody singer album piano drums choir orchestra violin tune chorus".split(),
    "travel": "flight hotel passport airport journey luggage tourist beach ticket train cruise map holiday border".split(),
    "money": "bank price loan salary tax budget invoice savings interest account payment debt coins market".split(),
    "health": "doctor hospital medicine fever patient nurse clinic pain surgery vitamin headache diet flu cough".split(),
    "school": "teacher exam homework pupil lesson classroom book grade chalk student essay maths lecture campus".split(),
    "computers": "software keyboard server bug code screen network laptop program database file password website mouse".split(),
    "animals": "dog cat horse bird zoo puppy kitten fur paw nest wolf stable feather fish".split(),
}
GOOD = """wonderful great lovely excellent fantastic superb brilliant delightful perfect amazing charming pleasant tasty friendly helpful
comfortable beautiful impressive enjoyable marvellous""".split()
BAD = """terrible awful bad horrible dreadful disappointing poor boring rude broken useless dirty cold slow ugly noisy painful bland
annoying miserable""".split()
REVIEWED = """film|book|hotel|meal|soup|concert|room|phone|service|game|play|coffee|holiday|journey|staff|lesson|chair|song|website|camera|restaurant|train
|show|story|cake|bed|teacher|driver|garden|museum""".replace("\n", "").split("|")
