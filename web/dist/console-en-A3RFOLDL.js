import{La as o,a as p,c as m}from"./chunk-VKJDB2R7.js";m(p(o,null),document.getElementById("app"));
