import{v as e,w as o}from"./chunk-4ZBABXCC.js";function r(){return o("h1",{children:e("overview")})}export{r as default};
